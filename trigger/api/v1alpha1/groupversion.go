// Package v1alpha1 has the kinds that call Functions: what users write, and the words of the
// conditions. Its only behaviour is what holds for fields that are left out.
//
// +kubebuilder:object:generate=true
// +groupName=goless.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of the types in this package.
var GroupVersion = schema.GroupVersion{Group: "goless.io", Version: "v1alpha1"}

// AddToScheme teaches a scheme the types in this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&CronTrigger{}, &CronTriggerList{},
		&HTTPTrigger{}, &HTTPTriggerList{},
		&KafkaTrigger{}, &KafkaTriggerList{},
		&NATSTrigger{}, &NATSTriggerList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
