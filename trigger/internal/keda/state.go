package keda

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// State is what KEDA reports about a ScaledObject.
type State struct {
	// Problem is the reason why KEDA does not scale the target, or "".
	Problem string

	// Paused reports whether an annotation of the ScaledObject has paused the scaling.
	Paused bool
}

// StateOf returns the state of the ScaledObject with a name. object has no UID if it does not exist.
func StateOf(name string, object *unstructured.Unstructured) State {
	var typed struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &typed); err != nil {
		return State{Problem: fmt.Sprintf("reading ScaledObject %q: %v", name, err)}
	}
	problem := func(format string, args ...any) State {
		return State{Problem: fmt.Sprintf("KEDA does not scale the Function: ScaledObject %q ", name) + fmt.Sprintf(format, args...)}
	}
	conditions := typed.Status.Conditions
	ready, active := meta.FindStatusCondition(conditions, "Ready"), meta.FindStatusCondition(conditions, "HPAActive")
	switch {
	case object.GetDeletionTimestamp() != nil:
		return problem("is being deleted, and the operator of KEDA has not removed its finalizers: %s", strings.Join(object.GetFinalizers(), ", "))
	case ready == nil, ready.Status == metav1.ConditionUnknown && ready.Message == "":
		return problem("has not been processed by the operator of KEDA yet")
	case ready.Status != metav1.ConditionTrue:
		return problem("is not ready: %s", ready.Message)
	case meta.IsStatusConditionTrue(conditions, "Paused"):
		return State{Paused: true}
	case active != nil && active.Status == metav1.ConditionFalse:
		return problem("is not active: %s", active.Message)
	}
	return State{}
}
