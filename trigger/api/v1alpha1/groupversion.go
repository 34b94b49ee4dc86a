// Package v1alpha1 contains the API of the triggers: CronTrigger, HTTPTrigger, KafkaTrigger and
// NATSTrigger, with their conditions and reasons. It also implements the defaults of omitted
// fields.
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

// AddToScheme adds the types in this package to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&CronTrigger{}, &CronTriggerList{},
		&HTTPTrigger{}, &HTTPTriggerList{},
		&KafkaTrigger{}, &KafkaTriggerList{},
		&NATSTrigger{}, &NATSTriggerList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
