// Package v1beta1 is the promise that Goless makes to its users: the Function,
// its status, and the words of its conditions. It holds no behaviour.
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

// AddToScheme teaches a scheme the types in this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Function{}, &FunctionList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
