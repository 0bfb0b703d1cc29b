#!/bin/sh
# Fails if a Go file is not as gofmt writes it.
set -eu

files=$("$(go env GOROOT)/bin/gofmt" -l .)
if [ -n "$files" ]; then
	echo "not formatted; run gofmt -w on:"
	echo "$files"
	exit 1
fi >&2
