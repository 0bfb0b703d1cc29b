#!/bin/sh
# Builds the named programs of Kubernetes, and etcd, of the versions that
# hack/kubernetes/go.mod pins, unless they are built already; prints the folder they
# are in. They are kept in the user's cache, outside the checkout, one folder for each
# pair of versions, because building them takes minutes.
#
#   hack/kubernetes-binaries.sh kube-apiserver etcd
set -eu

module=$(dirname "$0")/kubernetes
cache=${XDG_CACHE_HOME:-$HOME/.cache}/ghostline
export CGO_ENABLED=0

if [ $# = 0 ]; then
	echo "usage: kubernetes-binaries.sh NAME...: etcd, or a command of Kubernetes such as kube-apiserver" >&2
	exit 2
fi

# version prints the version of a module that go.mod names.
version() {
	go -C "$module" list -m -f '{{.Version}}' "$1"
}

kubernetes=$(version k8s.io/kubernetes)
etcd=$(version go.etcd.io/etcd/server/v3)
dir=$cache/kubernetes-$kubernetes-etcd-$etcd
minor=${kubernetes#v*.}
versionpkg=k8s.io/component-base/version

# A name of this process's own until the build is whole, so that neither a build that
# is broken off nor one beside it leaves half a program.
unfinished=
trap 'rm -f ${unfinished:+"$unfinished"}' EXIT
trap 'exit 130' INT TERM

# build puts one program into the folder.
build() {
	case $1 in
	*/* | .*) echo "kubernetes-binaries: $1 is not the name of a program" >&2 && exit 2 ;;
	etcd) package=go.etcd.io/etcd/server/v3 release=$etcd ;;
	*) package=k8s.io/kubernetes/cmd/$1 release=$kubernetes ;;
	esac
	echo "kubernetes-binaries: building $1 $release into $dir; it takes minutes, but only once" >&2
	mkdir -p "$dir"
	unfinished=$dir/.$1.$$
	# The API server tells its version, and what it supports, by these variables.
	go -C "$module" build -trimpath -buildvcs=false -o "$unfinished" -ldflags "-s -w
		-X $versionpkg.gitVersion=$kubernetes -X $versionpkg.gitMajor=1 -X $versionpkg.gitMinor=${minor%%.*}" "$package"
	mv -f "$unfinished" "$dir/$1"
	unfinished=
}

for name; do
	[ -x "$dir/$name" ] || build "$name"
done
echo "$dir"
