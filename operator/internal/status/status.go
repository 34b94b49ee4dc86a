// Package status computes the status of a Function: one pure function from what was seen in
// the cluster to a FunctionStatus. It reads and writes nothing.
//
// The conditions SourceValid, Built and Available are observed. Ready follows from them, and
// Reconciling and Stalled, which kstatus, Argo CD and Flux read, follow from Ready. Reconciling
// is also true while a ready Function changes its number of replicas.
package status

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/check"
	"goless.io/operator/internal/desired"
)

// Seen is what one look at the cluster showed of a Function.
type Seen struct {
	// Time is when that was.
	Time time.Time

	// Diagnostics are the mistakes for which the source was refused. Omitted
	// counts those that were left out.
	Diagnostics []v1beta1.Diagnostic
	Omitted     int32

	// Problem is nil when every object could be applied.
	Problem *check.Problem

	// Refused says that because of the Problem nothing of the spec was applied.
	Refused bool

	// Unchecked says that the source could not be read, so that nobody knows whether it is
	// valid. The Failure says why.
	Unchecked bool

	// Failure is why the objects could not be brought about this time; empty when
	// they could. It is tried again.
	Failure string

	// Degraded is what the function lacks and can do without, each with the reason and the
	// message of the condition.
	Degraded []check.Problem

	// Template is the hash of the pod template that the Deployment should have, see
	// desired.TemplateLabel; empty when it is not known.
	Template string

	// BuildService is what the build service says of the latest revision; nil where pods
	// compile.
	BuildService *BuildService

	// Deployment and Service are the Function's own; nil when they do not exist.
	Deployment *appsv1.Deployment
	Service    *corev1.Service

	// ReplicaSets are those of the Deployment.
	ReplicaSets []appsv1.ReplicaSet

	// Pods are those of the ReplicaSets.
	Pods []corev1.Pod
}

// BuildService is what the build service says of a revision.
type BuildService struct {
	// Report is how the build ended, as a builder leaves it in its termination
	// message; empty until it has.
	Report []byte

	// Trouble is why the service does not answer; empty when it does.
	Trouble string

	// Waiting is since when the build waits for its turn; zero when it does not.
	Waiting time.Time

	// Running means that pods run a binary that the service has compiled before, so that
	// there is nothing to wait for.
	Running bool
}

// Of returns the status of a Function, given what was seen. It does not change fn. What only
// deleted pods could tell is taken from the present status of fn.
func Of(fn *v1beta1.Function, seen Seen) v1beta1.FunctionStatus {
	v := view{fn: fn, seen: seen, revision: desired.LatestRevision(fn)}
	if len(seen.Diagnostics) > 0 || seen.Refused || seen.Unchecked {
		v.revision = fn.Status.LatestRevision
	}
	v.build, v.newest = v.builtOutcome(), v.newestOutcome()

	status := *fn.Status.DeepCopy()
	status.ObservedGeneration = fn.Generation
	status.Selector = labels.SelectorFromSet(desired.Selector(fn.Name)).String()
	status.Service, status.URL, status.Address = "", url(seen.Service), nil
	if seen.Service != nil {
		status.Service = seen.Service.Name
	}
	if status.URL != "" {
		status.Address = &v1beta1.Address{URL: status.URL}
	}
	status.LatestRevision = v.revision
	status.ReadyRevision = v.readyRevision()
	status.Replicas, status.ReadyReplicas = 0, 0
	if d := seen.Deployment; d != nil {
		status.Replicas, status.ReadyReplicas = d.Status.Replicas, d.Status.ReadyReplicas
	}
	status.ReplicaSummary = fmt.Sprintf("%d/%d", status.ReadyReplicas, v.want())
	status.Build = v.buildStatus()

	ready, stalled := v.ready()
	v.set(&status, ready)
	v.set(&status, v.sourceValid())
	v.set(&status, v.built())
	v.set(&status, v.available())
	reconciling := ready
	if ready.Status == metav1.ConditionTrue {
		reconciling = v.scaling()
	}
	v.setAbnormal(&status, v1beta1.ConditionReconciling, reconciling, !stalled && (ready.Status != metav1.ConditionTrue || !v.hasWantedReplicas()))
	v.setAbnormal(&status, v1beta1.ConditionStalled, ready, stalled)
	v.setAbnormal(&status, v1beta1.ConditionDegraded, v.degraded(), len(seen.Degraded) > 0)
	return status
}

func (v *view) set(status *v1beta1.FunctionStatus, condition metav1.Condition) {
	condition.ObservedGeneration = v.fn.Generation
	meta.SetStatusCondition(&status.Conditions, condition)
}

// setAbnormal sets a condition that exists only while it is true, with the reason and the
// message of another one.
func (v *view) setAbnormal(status *v1beta1.FunctionStatus, kind string, as metav1.Condition, on bool) {
	if !on {
		meta.RemoveStatusCondition(&status.Conditions, kind)
		return
	}
	as.Type, as.Status = kind, metav1.ConditionTrue
	v.set(status, as)
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
