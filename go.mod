module github.com/ghostline-dev/ghostline

go 1.26.0
