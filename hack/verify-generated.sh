#!/bin/sh
# Fails if `make generate` changes a file. It leaves the new files in place:
# they are what has to be committed.
set -eu

git rev-parse --is-inside-work-tree >/dev/null # without git, what changed cannot be told

# sums prints a checksum for each file that git tracks or would track.
sums() {
	git ls-files -z --cached --others --exclude-standard | xargs -0 cksum 2>/dev/null | sort -k 3
}

before=$(mktemp)
after=$(mktemp)
trap 'rm -f "$before" "$after"' EXIT
sums >"$before"
"${MAKE:-make}" --no-print-directory generate
sums >"$after"
if ! diff "$before" "$after" >&2; then
	echo "generated files were out of date; they are written anew: commit them" >&2
	exit 1
fi
