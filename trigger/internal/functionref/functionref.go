// Package functionref reads the spec and the status of a Function. It returns the URL, if there is
// one, and the reason why calls would fail, if one is known.
package functionref

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/trigger/api/v1alpha1"
)

// A Problem is the reason why a trigger is not ready: the reason and the message of its condition.
type Problem struct {
	Reason, Message string

	// Stalled means that only the user can solve the problem, by changing the trigger or something
	// in the cluster.
	Stalled bool
}

// holding is the additional time for a request to a sleeping function, in which a pod can become
// ready and respond.
const holding = 70 * time.Second

// A Target is the destination of requests for a Function.
type Target struct {
	// URL is the URL of the Function. It is empty if the Function does not exist, has no Service,
	// or is stopped.
	URL string

	// Timeout is the maximum duration of a request; 0 means no timeout.
	Timeout time.Duration

	// Problem is the reason why calls would fail, or nil if none is known.
	Problem *Problem
}

// Of returns the target of a Function. A Function without a UID does not exist.
func Of(fn *v1beta1.Function, name string) Target {
	t := Target{URL: fn.Status.URL}
	if timeout := fn.RequestTimeout(); timeout > 0 {
		t.Timeout = timeout + holding
	}
	available := meta.FindStatusCondition(fn.Status.Conditions, v1beta1.ConditionAvailable)
	switch {
	case fn.UID == "":
		return Target{Problem: &Problem{Reason: v1alpha1.ReasonFunctionNotFound, Message: fmt.Sprintf("Function %q not found in this namespace", name)}}
	case fn.Spec.Replicas != nil && *fn.Spec.Replicas == 0:
		t.URL = ""
		t.Problem = &Problem{Reason: v1alpha1.ReasonFunctionStopped, Message: fmt.Sprintf("Function %q is stopped: its spec.replicas is 0", name)}
	case t.URL == "":
		t.Problem = &Problem{Reason: v1alpha1.ReasonFunctionNotReachable, Message: fmt.Sprintf("Function %q has no Service; see its status", name)}
	case available == nil:
	case available.Status == metav1.ConditionFalse:
		t.Problem = &Problem{Reason: v1alpha1.ReasonFunctionUnavailable, Message: fmt.Sprintf("Function %q is unavailable: %s", name, available.Message)}
	}
	return t
}
