// Package status says what is true of a Function: one pure function from what
// was seen in the cluster to a FunctionStatus. It reads and writes nothing.
//
// The conditions SourceValid, Built and Available are observed; Ready follows
// from them, and Reconciling and Stalled, which kstatus, Argo CD and Flux read,
// follow from Ready.
package status

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
)

// Problem is why the objects of a Function could not be brought about, where
// only the user can help.
type Problem struct {
	// Reason is the reason of Ready: InvalidSpec, NotOwned or ServiceConflict.
	Reason string

	// Message says what to do.
	Message string
}

// Seen is what one look at the cluster showed of a Function.
type Seen struct {
	// Diagnostics are the mistakes for which the source was refused. Omitted
	// counts those that were left out.
	Diagnostics []v1beta1.Diagnostic
	Omitted     int32

	// Problem is nil when every object could be applied.
	Problem *Problem

	// Refused says that because of the Problem nothing of the spec was applied.
	Refused bool

	// Failure is why the objects could not be brought about this time; empty when
	// they could. It is tried again.
	Failure string

	// Template is the hash of the pod template that the Deployment should have, see
	// desired.TemplateLabel; empty when nothing is known of it.
	Template string

	// Ordered is what the build service says of the latest revision; nil where pods
	// compile.
	Ordered *Ordered

	// Deployment and Service are the Function's own; nil when not there.
	Deployment *appsv1.Deployment
	Service    *corev1.Service

	// ReplicaSets are those of the Deployment.
	ReplicaSets []appsv1.ReplicaSet

	// Pods are those of the ReplicaSets.
	Pods []corev1.Pod
}

// Ordered is what the build service says of a revision.
type Ordered struct {
	// Report is how the build ended, as a builder leaves it in its termination
	// message; empty until it has.
	Report []byte

	// Trouble is why the service does not answer; empty where nothing is the matter.
	Trouble string

	// Running says that pods have been started with what it compiled before, so that
	// there is nothing to wait for.
	Running bool
}

// Of is the status of a Function, given what was seen. fn is not changed; its
// present status carries over what pods that are gone can no longer tell.
func Of(fn *v1beta1.Function, seen Seen) v1beta1.FunctionStatus {
	v := view{fn: fn, seen: seen, revision: desired.Revision(fn.Spec.Function)}
	if len(seen.Diagnostics) > 0 || seen.Refused {
		v.revision = fn.Status.LatestRevision
	}
	v.build, v.newest = v.builtOutcome(), v.newestOutcome()

	status := *fn.Status.DeepCopy()
	status.ObservedGeneration = fn.Generation
	status.Selector = labels.SelectorFromSet(desired.Selector(fn.Name)).String()
	status.URL = url(seen.Service)
	status.LatestRevision = v.revision
	status.ReadyRevision = v.readyRevision()
	status.Replicas, status.ReadyReplicas = 0, 0
	if d := seen.Deployment; d != nil {
		status.Replicas, status.ReadyReplicas = d.Status.Replicas, d.Status.ReadyReplicas
	}
	status.Build = v.buildStatus()

	ready, stalled := v.ready()
	v.set(&status, ready)
	v.set(&status, v.sourceValid())
	v.set(&status, v.built())
	v.set(&status, v.available())
	v.setAbnormal(&status, v1beta1.ConditionReconciling, ready, ready.Status != metav1.ConditionTrue && !stalled)
	v.setAbnormal(&status, v1beta1.ConditionStalled, ready, stalled)
	return status
}

// Unseen is the status of a Function of which nothing can be seen for now, and why: it
// is what it was, but not Ready. The second result tells whether that is news.
func Unseen(fn *v1beta1.Function, failure string) (v1beta1.FunctionStatus, bool) {
	ready := condition(v1beta1.ConditionReady, metav1.ConditionFalse, v1beta1.ReasonApplyFailed, oneLine(failure))
	is := meta.FindStatusCondition(fn.Status.Conditions, v1beta1.ConditionReady)
	if is != nil && is.Reason == ready.Reason && strings.HasPrefix(is.Message, ready.Message) {
		return fn.Status, false
	}
	status := *fn.Status.DeepCopy()
	seen := *fn
	seen.Generation = max(0, status.ObservedGeneration) // what was looked at
	v := view{fn: &seen}
	v.set(&status, ready)
	v.setAbnormal(&status, v1beta1.ConditionReconciling, ready, true)
	v.setAbnormal(&status, v1beta1.ConditionStalled, ready, false)
	return status, true
}

func (v *view) set(status *v1beta1.FunctionStatus, condition metav1.Condition) {
	condition.ObservedGeneration = v.fn.Generation
	meta.SetStatusCondition(&status.Conditions, condition)
}

// setAbnormal sets a condition that is there only while it is true.
func (v *view) setAbnormal(status *v1beta1.FunctionStatus, kind string, ready metav1.Condition, on bool) {
	if !on {
		meta.RemoveStatusCondition(&status.Conditions, kind)
		return
	}
	ready.Type, ready.Status = kind, metav1.ConditionTrue
	v.set(status, ready)
}

// url is where a Service answers inside the cluster; empty when there is none.
func url(service *corev1.Service) string {
	if service == nil || len(service.Spec.Ports) == 0 {
		return ""
	}
	return fmt.Sprintf("http://%s.%s.svc:%d", service.Name, service.Namespace, service.Spec.Ports[0].Port)
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}
