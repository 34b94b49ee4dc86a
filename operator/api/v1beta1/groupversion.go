// Package v1beta1 contains the API of Goless: Function, with its conditions and their reasons, and
// FunctionClass. It also implements the defaults of omitted fields, and a decoder that stores the
// error in spec.Unreadable if a stored spec does not match the types.
//
// +kubebuilder:object:generate=true
// +groupName=goless.io
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of the types in this package.
var GroupVersion = schema.GroupVersion{Group: "goless.io", Version: "v1beta1"}

// AddToScheme adds the types in this package to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Function{}, &FunctionList{}, &FunctionClass{}, &FunctionClassList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
