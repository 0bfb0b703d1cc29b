#!/bin/sh
# Runs every fuzz target of the module for FUZZTIME. An input that fails is
# written below its package's testdata/fuzz: commit it with the fix.
set -eu

FUZZTIME=${FUZZTIME:-30s}
failed=0
targets=$(find . -name '*_test.go' ! -path './.*' -exec grep -Ho '^func Fuzz[A-Za-z0-9_]*' {} + | sort)
[ -n "$targets" ] || echo "fuzz: the module has no fuzz target"
IFS='
'
for target in $targets; do
	folder=$(dirname "${target%%:*}")
	name=${target##*func }
	echo "fuzz: $folder $name for $FUZZTIME"
	go test "$folder" -run '^$' -fuzz "^$name\$" -fuzztime "$FUZZTIME" || failed=$((failed + 1))
done
if [ "$failed" -gt 0 ]; then
	echo "fuzz: targets that failed: $failed" >&2
	exit 1
fi
