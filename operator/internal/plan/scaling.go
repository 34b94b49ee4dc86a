package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/settings"
	"goless.io/operator/internal/validation"
	"goless.io/operator/internal/workload"
)

// startTimeout is the time that the pods of a version that slept have to become ready before a new
// version replaces them.
const startTimeout = 2 * time.Minute

// withinCeilings returns the Function with its replicas limited to the maximum of the cluster.
// Package desired limits its resources.
func withinCeilings(fn *v1beta1.Function, s settings.Settings) *v1beta1.Function {
	ceiling := desired.MaxReplicas(s)
	least, most := fn.Bounds()
	if most <= ceiling {
		return fn
	}
	fn = fn.DeepCopy()
	if fn.Spec.Scaling == nil {
		fn.Spec.Replicas = &ceiling
	} else {
		fn.Spec.Scaling.Min, fn.Spec.Scaling.Max = new(min(least, ceiling)), &ceiling
	}
	return fn
}

// ReplicasLeftToOthers reports whether HorizontalPodAutoscalers of other owners set the number of
// replicas of a Function. They do not scale a Deployment of 0 replicas, so a Function can still be
// stopped.
func (p *Plan) ReplicasLeftToOthers(fn *v1beta1.Function) bool {
	return p.AutoscalerConflict != nil && !fn.Stopped()
}

// autoscalerConflict returns the problem that HorizontalPodAutoscalers of other owners scale the
// Deployment of a Function; nil if there are none.
func autoscalerConflict(fn *v1beta1.Function, autoscalers []autoscalingv2.HorizontalPodAutoscaler) *validation.Problem {
	var names []string
	for _, a := range autoscalers {
		name := fmt.Sprintf("HorizontalPodAutoscaler %q", a.Name)
		if owner := metav1.GetControllerOfNoCopy(&a); owner != nil {
			name += fmt.Sprintf(" of %s %q", owner.Kind, owner.Name)
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return &validation.Problem{Reason: v1beta1.ReasonAutoscalerConflict, Message: fmt.Sprintf("Deployment %q is scaled by %s, so the operator does not set its replicas: "+
		"spec.scaling and spec.replicas other than 0 are not applied; scale the Function instead (scaleTargetRef with apiVersion %s, kind Function, name %s)",
		fn.Name, strings.Join(names, " and "), v1beta1.GroupVersion, fn.Name)}
}

// scaling plans the HorizontalPodAutoscaler of the function, and the number of replicas if that is
// not an applied field. Kubernetes does not scale pods that are selected by two
// HorizontalPodAutoscalers, so the function has none if another owner has one.
func (p *planner) scaling(fn *v1beta1.Function) {
	others := p.ReplicasLeftToOthers(fn)
	if others && p.Service != nil {
		p.leaveToOthers()
	}
	if others && p.Deployment != nil {
		p.Deployment.Spec.Replicas = nil
	}
	if others || !desired.NeedsAutoscaler(fn) {
		p.deleteOwn(fn, p.seen.Autoscaler)
	} else if p.Deployment != nil && !p.AwaitsBuild {
		p.Autoscaler = desired.Autoscaler(fn, p.settings)
	}
	if p.Deployment != nil && p.seen.OwnedFields != nil && !desired.OwnsReplicas(p.Deployment) {
		p.replicas(fn)
	}
}

// leaveToOthers plans a Service whose function is scaled by another autoscaler, and not by the activator.
// While the Deployment has 0 replicas, the Service keeps the annotation with which the activator wakes it:
// the minimum of a window does not apply, and the other autoscaler may not scale from 0.
func (p *planner) leaveToOthers() {
	delete(p.Service.Annotations, v1beta1.ScalingAnnotation)
	after := p.seen.Service.Annotations[v1beta1.SleepAfterAnnotation]
	if after != "" && p.seen.OwnedFields != nil && workload.Replicas(p.seen.Deployment) == 0 {
		p.Service.WithAnnotations(map[string]string{v1beta1.SleepAfterAnnotation: after})
	}
}

// replicas plans the number of replicas of a Deployment that the HorizontalPodAutoscaler and the
// activator scale. The operator hands the number over to them, keeps it within the bounds unless a
// HorizontalPodAutoscaler of another owner sets it, and wakes a sleeping function for a new pod
// template, or if the function has never served.
//
// A sleeping function gets a new template only when one of its pods is ready again, or cannot become
// ready, see starting. From then on it is a normal rollout, in which the previous version keeps serving if the
// new one is broken. If only values of ConfigMaps and Secrets have changed, which the next pod
// reads anyway, the function gets the template at once and keeps sleeping.
func (p *planner) replicas(fn *v1beta1.Function) {
	live := p.seen.Deployment
	least, most := fn.Bounds()
	now := workload.Replicas(live)
	owned := desired.OwnsReplicas(p.seen.OwnedFields)
	changes := desired.TemplateIn(p.Deployment) != desired.TemplateOf(&live.Spec.Template)
	asleep := now == 0 && least == 0 && !owned
	if asleep && workload.Served(fn, live) && (!changes || desired.OnlyValuesDiffer(p.Deployment, p.seen.Applied())) {
		if changes {
			p.Deployment.WithResourceVersion(live.ResourceVersion) // the function may be woken concurrently
		}
		return
	}
	within := min(max(now, least, 1), most)
	if p.ReplicasLeftToOthers(fn) {
		within = now
		if stopped := now == 0 && owned; stopped || asleep {
			within = 1
		}
	}
	if owned || within != now {
		p.Scale = &within
	}
	if least == 0 && changes && !p.hasOnlyWaitingPods(fn) {
		p.DeploymentDelay = p.starting()
		// The function may be woken or fall asleep concurrently.
		p.Deployment.WithResourceVersion(live.ResourceVersion)
	}
}

// starting returns how long to wait for the pods of the current template: 0 when one of them is ready,
// cannot become ready or has had startTimeout for it, and during a rollout. A pod that has just been
// evicted counts as one that cannot: its replacements are new, and waiting for them might never end. Older
// ones, and pods that are being deleted, may be from before the sleep and are ignored.
func (p *planner) starting() time.Duration {
	left := startTimeout
	for _, c := range p.seen.Deployment.Status.Conditions {
		switch {
		case c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue,
			c.Type == appsv1.DeploymentProgressing && c.Reason != workload.NewReplicaSetAvailable:
			return 0
		}
	}
	for _, pod := range p.seen.Pods {
		age := p.seen.Time.Sub(pod.CreationTimestamp.Time)
		evicted := pod.Status.Phase == corev1.PodFailed
		switch {
		case pod.DeletionTimestamp != nil, evicted && age >= startTimeout:
		case evicted, age >= startTimeout, workload.Ready(&pod), workload.CannotStart(&pod):
			return 0
		default:
			left = min(left, startTimeout-age)
		}
	}
	return left
}
