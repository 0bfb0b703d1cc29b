// Package v1alpha1 is the contract with users: the CompletionRoute and its parts. It
// holds types and names, no logic.
//
// +kubebuilder:object:generate=true
// +groupName=completions.ghostline.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

//go:generate go tool -modfile=../../hack/tools/go.mod controller-gen object paths=.
//go:generate go tool -modfile=../../hack/tools/go.mod controller-gen crd paths=. output:crd:dir=../../config/crd

// GroupVersion is the group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "completions.ghostline.dev", Version: "v1alpha1"}

// AddToScheme makes the kinds of this package known to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &CompletionRoute{}, &CompletionRouteList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
