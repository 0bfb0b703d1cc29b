#!/bin/sh
# Unpacks llama.cpp's server, which newer Debian releases package, with all libraries
# that it needs into DIR/llama.cpp, and writes DIR/llama-server, which runs it from
# there. Nothing is installed on this machine.
set -eu

dir=${1:?usage: interop-engine.sh DIR}
release=forky
root=$dir/llama.cpp

# Debian's own mirror, wherever this machine has it from.
mirror=$(sed -n 's/^URIs: *//p; s/^deb \(\[.*\] \)\{0,1\}\([^ ]*\) .*/\2/p' /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | grep -v security | grep -m 1 debian) || {
	echo "interop-engine: no Debian mirror among this machine's package sources" >&2
	exit 1
}

mkdir -p "$dir"
rm -rf "$root"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "interop-engine: unpacking llama.cpp of Debian $release"
# A mirror that lags behind is good enough. Unpacked only: nothing in there is run as root.
if ! mmdebstrap --aptopt='Acquire::Check-Valid-Until "false"' --variant=extract --include=llama.cpp-tools "$release" "$root.new" "$mirror" >"$log" 2>&1; then
	tail -n 20 "$log" >&2
	rm -rf "$root.new"
	exit 1
fi
mv "$root.new" "$root"

libraries=$(dirname "$(find "$root/usr/lib" -name libllama.so.0 | head -n 1)")
loader=$(find "$libraries" -maxdepth 1 -name 'ld-linux*.so.*' | head -n 1)
# By its own loader and libraries, in the folder where it looks for its backends.
cat >"$dir/llama-server" <<EOF
#!/bin/sh
cd "$libraries/ggml/backends0" && exec "$loader" --library-path "$libraries:$libraries/llama" "$root/usr/bin/llama-server" "\$@"
EOF
chmod 755 "$dir/llama-server"
