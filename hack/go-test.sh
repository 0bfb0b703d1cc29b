#!/bin/sh
# go test with these arguments. The race detector needs cgo, so a C compiler that works;
# where there is none the tests run without it.
set -eu

race=
if why=$(CGO_ENABLED=1 go build -race runtime/cgo 2>&1); then
	race=-race
	export CGO_ENABLED=1
else
	echo "go-test: without the race detector, which does not build here: $(echo "$why" | tail -n 1)"
fi
exec go test $race "$@"
