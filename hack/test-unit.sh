#!/bin/sh
# Runs the tests beside the code. The race detector needs cgo, so a C compiler
# that works; where there is none the tests run without it.
set -eu

race=
if why=$(CGO_ENABLED=1 go build -race runtime/cgo 2>&1); then
	race=-race
	export CGO_ENABLED=1
else
	echo "test-unit: without the race detector, which does not build here: $(echo "$why" | tail -n 1)"
fi
# The default of 10 minutes is for the whole of a package, and test/feature has much
# to do on a slow machine.
exec go test $race -timeout 30m ./...
