// Package target says where a Function is called, and what keeps a trigger from that. It is
// one pure function of the Function's spec and status.
package target

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/trigger/api/v1alpha1"
)

// A Problem is why a trigger is not ready: the reason and the message of its condition.
type Problem struct {
	Reason, Message string

	// Stalled means that only a change of the trigger, or of what is in its way, can help.
	Stalled bool
}

// holding is how long a request may wait until a function that slept has a pod, and be
// answered.
const holding = 70 * time.Second

// A Target is where the requests for a Function go.
type Target struct {
	// URL is where the Function answers; empty while it should not be called, because it
	// does not exist, has no Service, or is stopped.
	URL string

	// Timeout is how long a request may take; 0 for any time.
	Timeout time.Duration

	// Problem is why calls would fail; nil when nothing is known.
	Problem *Problem
}

// Of returns the target of a Function. It has no UID where it does not exist.
func Of(fn *v1beta1.Function, name string) Target {
	t := Target{URL: fn.Status.URL}
	if timeout := fn.RequestTimeout(); timeout > 0 {
		t.Timeout = timeout + holding
	}
	available := meta.FindStatusCondition(fn.Status.Conditions, v1beta1.ConditionAvailable)
	switch {
	case fn.UID == "":
		return Target{Problem: &Problem{Reason: v1alpha1.ReasonFunctionNotFound, Message: fmt.Sprintf("there is no Function %q in this namespace", name)}}
	case fn.Spec.Replicas != nil && *fn.Spec.Replicas == 0:
		t.URL = ""
		t.Problem = &Problem{Reason: v1alpha1.ReasonFunctionStopped, Message: fmt.Sprintf("Function %q is stopped: its spec.replicas is 0", name)}
	case t.URL == "":
		t.Problem = &Problem{Reason: v1alpha1.ReasonFunctionNotReachable, Message: fmt.Sprintf("Function %q has no Service yet: its status says why", name)}
	case available == nil:
	case available.Status == metav1.ConditionFalse:
		t.Problem = &Problem{Reason: v1alpha1.ReasonFunctionUnavailable, Message: fmt.Sprintf("Function %q does not answer: %s", name, available.Message)}
	}
	return t
}
