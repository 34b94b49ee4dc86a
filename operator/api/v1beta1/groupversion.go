// Package v1beta1 is the promise that Goless makes to its users: the Function, its status,
// the words of its conditions, and the FunctionClass of administrators. Its only behaviour is what
// holds for fields that are left out, and how a Function is read that does not fit the schema.
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
	scheme.AddKnownTypes(GroupVersion, &Function{}, &FunctionList{}, &FunctionClass{}, &FunctionClassList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
