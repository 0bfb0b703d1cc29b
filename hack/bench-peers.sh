#!/bin/sh
# Installs what `make bench` compares the proxy with, where this is Debian and we
# are root. Elsewhere it says what is missing and succeeds: the bench runs with the
# peers that it finds. It leaves no service running, now or after the next boot.
set -eu

PATH=$PATH:/usr/sbin
missing=
command -v haproxy >/dev/null || missing="$missing haproxy"
command -v nghttpx >/dev/null || missing="$missing nghttp2-proxy"
[ -n "$missing" ] || exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo "bench: not found:$missing; install what your system calls so, to have it compared" >&2
	exit 0
fi

# A Debian package starts its service unless this file says no: policy-rc.d(8).
policy=/usr/sbin/policy-rc.d
log=$(mktemp)
made=
trap 'rm -f "$log" $made' EXIT
trap 'exit 1' INT TERM
if [ ! -e "$policy" ]; then
	made=$policy
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
fi

echo "bench: installing$missing"
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # a list
if { apt-get update -q && apt-get install -qy --no-install-recommends $missing; } >"$log" 2>&1; then
	case $missing in *haproxy*) update-rc.d haproxy disable >"$log" 2>&1 || cat "$log" >&2 ;; esac
	case $missing in *nghttp*) update-rc.d nghttpx disable >"$log" 2>&1 || cat "$log" >&2 ;; esac
else
	tail -n 5 "$log" >&2
	echo "bench: could not be installed:$missing" >&2
fi
