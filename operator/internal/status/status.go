// Package status computes the status of a Function: a pure function from the observed state of the
// cluster to a FunctionStatus. It does not read from or write to the cluster.
//
// The conditions SourceValid, Built, Available and Ready are computed from the observed state, and
// Reconciling and Stalled, which kstatus and Flux read, are derived from Ready. Reconciling is also
// True while a ready Function changes its number of replicas, unless it falls asleep or wakes.
package status

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/apply"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/observe"
	"goless.io/operator/internal/plan"
	"goless.io/operator/internal/validation"
)

// Seen is the input of Of: the Snapshot, the Plan that was made from it, and the Outcome of
// applying the Plan. The status describes the Deployment and the Service of the Outcome.
type Seen struct {
	Snapshot observe.Snapshot
	Plan     plan.Plan
	Outcome  apply.Outcome
}

// Problem returns the problem that only the user can fix; nil if there is none.
func (s *Seen) Problem() *validation.Problem {
	return cmp.Or(s.Plan.Problem, s.Outcome.Problem, s.Plan.OverLimits)
}

// Of returns the status of a Function. It does not change fn. From the current status of fn, it
// carries over the results of pods that no longer exist.
func Of(fn *v1beta1.Function, seen Seen) v1beta1.FunctionStatus {
	v := view{fn: fn, seen: seen, revision: desired.LatestRevision(fn)}
	if len(seen.Plan.Diagnostics) > 0 || seen.Plan.Problem != nil || seen.Snapshot.CheckErr != nil {
		v.revision = fn.Status.LatestRevision
	}
	v.build, v.newest = v.builtOutcome(), v.newestOutcome()

	status := *fn.Status.DeepCopy()
	status.ObservedGeneration = fn.Generation
	status.Selector = labels.SelectorFromSet(desired.Selector(fn.Name)).String()
	status.Service, status.URL, status.Address = "", url(seen.Outcome.Service), nil
	if seen.Outcome.Service != nil {
		status.Service = seen.Outcome.Service.Name
	}
	if status.URL != "" {
		status.Address = &v1beta1.Address{URL: status.URL}
	}
	status.LatestRevision = v.revision
	status.ReadyRevision = v.readyRevision()
	status.Replicas, status.ReadyReplicas = 0, 0
	if d := seen.Outcome.Deployment; d != nil {
		status.Replicas, status.ReadyReplicas = d.Status.Replicas, d.Status.ReadyReplicas
	}
	status.ReplicaSummary = fmt.Sprintf("%d/%d", status.ReadyReplicas, v.want())
	status.Build = v.buildStatus()

	ready, stalled := v.ready()
	status.CurrentRevision, status.Revisions = v.revisions(ready)
	v.set(&status, ready)
	v.set(&status, v.sourceValid())
	v.set(&status, v.built())
	v.set(&status, v.available())
	reconciling := ready
	if ready.Status == metav1.ConditionTrue {
		reconciling = v.scaling()
	}
	v.setAbnormal(&status, v1beta1.ConditionReconciling, reconciling, !stalled && (ready.Status != metav1.ConditionTrue || v.lacksReplicas()))
	v.setAbnormal(&status, v1beta1.ConditionStalled, ready, stalled)
	v.setAbnormal(&status, v1beta1.ConditionDegraded, v.degraded(), len(v.lacks()) > 0)
	return status
}

func (v *view) set(status *v1beta1.FunctionStatus, condition metav1.Condition) {
	condition.ObservedGeneration = v.fn.Generation
	meta.SetStatusCondition(&status.Conditions, condition)
}

// setAbnormal sets a condition that exists only while it is True, with the reason and the message
// of another condition.
func (v *view) setAbnormal(status *v1beta1.FunctionStatus, kind string, as metav1.Condition, on bool) {
	if !on {
		meta.RemoveStatusCondition(&status.Conditions, kind)
		return
	}
	as.Type, as.Status = kind, metav1.ConditionTrue
	v.set(status, as)
}

// url returns the URL of a Service inside the cluster; empty if there is none.
func url(service *corev1.Service) string {
	if service == nil || len(service.Spec.Ports) == 0 {
		return ""
	}
	return fmt.Sprintf("http://%s.%s.svc:%d", service.Name, service.Namespace, service.Spec.Ports[0].Port)
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}
