#!/bin/sh
# Runs test/api against a real API server: the one in KUBEBUILDER_ASSETS, or else one
# that is built here once and kept in the user's cache.
set -eu

if [ -z "${KUBEBUILDER_ASSETS:-}" ]; then
	KUBEBUILDER_ASSETS=$(sh hack/kubernetes-binaries.sh etcd kube-apiserver kube-controller-manager)
	export KUBEBUILDER_ASSETS
fi
# TESTFLAGS are more arguments of go test, such as "-run ^$ -bench Programmed".
# shellcheck disable=SC2086
exec sh hack/go-test.sh -timeout 20m ${TESTFLAGS:-} ./test/api/...
