// Package keda defines those fields of a ScaledObject that the triggers of Goless use. KEDA's own
// module would add many dependencies: a client for each of its scalers.
package keda

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
)

// GroupVersionKind is the group, version and kind of ScaledObjects.
var GroupVersionKind = schema.GroupVersionKind{Group: "keda.sh", Version: "v1alpha1", Kind: "ScaledObject"}

// New returns an empty ScaledObject.
func New() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(GroupVersionKind)
	return object
}

// ScaledObject is the apply configuration of a ScaledObject.
type ScaledObject struct {
	metav1ac.TypeMetaApplyConfiguration    `json:",inline"`
	*metav1ac.ObjectMetaApplyConfiguration `json:"metadata,omitempty"`

	Spec Spec `json:"spec"`
}

// Spec contains the target, the range of its replicas and the scalers.
type Spec struct {
	Target   Target    `json:"scaleTargetRef"`
	Min      int32     `json:"minReplicaCount"`
	Max      int32     `json:"maxReplicaCount"`
	Triggers []Trigger `json:"triggers"`
}

// Target refers to an object with the scale subresource.
type Target struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
}

// Trigger is a KEDA scaler and its settings.
type Trigger struct {
	Type     string            `json:"type"`
	Metadata map[string]string `json:"metadata"`
}

// Of returns the apply configuration of a ScaledObject.
func Of(name, namespace string, labels map[string]string, owner *metav1ac.OwnerReferenceApplyConfiguration, spec Spec) *ScaledObject {
	meta := &metav1ac.ObjectMetaApplyConfiguration{Name: &name, Namespace: &namespace, Labels: labels}
	if owner != nil {
		meta.OwnerReferences = append(meta.OwnerReferences, *owner)
	}
	apiVersion, kind := GroupVersionKind.ToAPIVersionAndKind()
	return &ScaledObject{
		TypeMetaApplyConfiguration:   metav1ac.TypeMetaApplyConfiguration{APIVersion: &apiVersion, Kind: &kind},
		ObjectMetaApplyConfiguration: meta, Spec: spec,
	}
}

// IsApplyConfiguration implements runtime.ApplyConfiguration.
func (*ScaledObject) IsApplyConfiguration() {}

// GetKind returns ScaledObject.
func (s *ScaledObject) GetKind() *string { return s.Kind }

// Extract returns the fields of an object that this package applies, regardless of which client set
// them. Of the labels, it returns only those with the given keys.
func Extract(object *unstructured.Unstructured, labels ...string) (*ScaledObject, error) {
	spec, _, err := unstructured.NestedMap(object.Object, "spec")
	if err != nil {
		return nil, fmt.Errorf("reading ScaledObject %q: %w", object.GetName(), err)
	}
	var typed Spec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &typed); err != nil {
		return nil, fmt.Errorf("reading ScaledObject %q: %w", object.GetName(), err)
	}
	kept := map[string]string{}
	for _, name := range labels {
		if value, ok := object.GetLabels()[name]; ok {
			kept[name] = value
		}
	}
	return Of(object.GetName(), object.GetNamespace(), kept, owner(object), typed), nil
}

func owner(object *unstructured.Unstructured) *metav1ac.OwnerReferenceApplyConfiguration {
	ref := metav1.GetControllerOf(object)
	if ref == nil {
		return nil
	}
	return metav1ac.OwnerReference().WithAPIVersion(ref.APIVersion).WithKind(ref.Kind).WithName(ref.Name).WithUID(ref.UID).WithController(true)
}
