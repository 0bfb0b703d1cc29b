#!/bin/sh
# Installs the programs that test/interop holds Ghostline between, and runs its tests.
# Debian's packages need root; what is there already is taken as it is. All else goes
# into bin/interop.
set -eu

PATH=$PATH:/usr/sbin
interop=$PWD/bin/interop
clients=$interop/clients

fail() {
	echo "test-interop: $1" >&2
	exit 1
}

# quietly runs a command and shows what it said only if it fails.
quietly() {
	log=$(mktemp)
	if ! "$@" >"$log" 2>&1; then
		tail -n 20 "$log" >&2
		rm -f "$log"
		fail "this failed: $*"
	fi
	rm -f "$log"
}

missing=
command -v curl >/dev/null || missing="$missing curl"
command -v nghttp >/dev/null || missing="$missing nghttp2-client"
command -v npm >/dev/null || missing="$missing npm"
[ -x "${GHOSTLINE_LLAMA_SERVER:-$interop/llama-server}" ] || command -v mmdebstrap >/dev/null || missing="$missing mmdebstrap"
if [ -n "$missing" ]; then
	[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || fail "not found:$missing; install what your system calls so"
	echo "test-interop: installing$missing"
	quietly apt-get update -q
	# shellcheck disable=SC2086 # a list
	quietly env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $missing
fi

if [ -z "${GHOSTLINE_LLAMA_SERVER:-}" ]; then
	[ -x "$interop/llama-server" ] || sh hack/interop-engine.sh "$interop"
	export GHOSTLINE_LLAMA_SERVER="$interop/llama-server"
fi
echo "test-interop: llama-server $("$GHOSTLINE_LLAMA_SERVER" --version 2>&1 | sed -n 's/^version: //p')"

# The packages bring binaries for x86-64; no script of theirs is run.
if [ "$(uname -sm)" = "Linux x86_64" ]; then
	mkdir -p "$clients"
	cp test/interop/clients/* "$clients"
	quietly npm ci --prefix "$clients" --ignore-scripts --no-audit --no-fund
	export GHOSTLINE_CLIENTS="$clients"
else
	echo "test-interop: the clients of npm are for Linux on x86-64 only; their tests skip themselves" >&2
fi

exec sh hack/go-test.sh -count=1 -timeout 10m ./test/interop/...
