// Package plan decides what to do about a Function: one pure function from the Function and a
// Snapshot of the cluster, with the settings, to a Plan. It reads and writes nothing, so that every
// decision can be tested by a table.
package plan

import (
	"time"

	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	autoscalingv2ac "k8s.io/client-go/applyconfigurations/autoscaling/v2"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/observe"
	"goless.io/operator/internal/settings"
	"goless.io/operator/internal/validation"
)

// A Plan is what to do about a Function.
type Plan struct {
	// Problem is for what reason the spec is refused, and nothing of it is applied; nil when it is
	// not.
	Problem *validation.Problem

	// OverCeilings tells which fields of the spec exceed the ceilings of the cluster; nil when none
	// does. They are applied as far as the ceilings allow.
	OverCeilings *validation.Problem

	// AutoscalerConflict names the HorizontalPodAutoscalers of other owners that scale the Deployment;
	// nil when there is none. The operator leaves the number of replicas to them.
	AutoscalerConflict *validation.Problem

	// Diagnostics are the mistakes for which the source is refused. Omitted counts those
	// that were left out.
	Diagnostics []v1beta1.Diagnostic
	Omitted     int32

	// Orders are what to order of the build service: the Function, each time with one of its
	// sources. All other orders of the Function end.
	Orders []*v1beta1.Function

	// DoubtOrders means that pods may be fetching a binary that the build service has built before,
	// and lost since.
	DoubtOrders bool

	// BuildService is what the build service says of the latest source; nil where pods compile.
	BuildService *BuildService

	// Source is the Function with the source to store in a ConfigMap; nil for none.
	Source *v1beta1.Function

	// Scale is the number of replicas that the Deployment gets before it is applied, without
	// being a field of what is applied; nil for the number that it has.
	Scale *int32

	// DeploymentDelay is the longest time for which the Deployment is not applied yet, because its
	// present pods are starting; 0 to apply it now.
	DeploymentDelay time.Duration

	// These objects are applied; those that are nil stay as they are.
	Deployment    *appsv1ac.DeploymentApplyConfiguration
	Service       *corev1ac.ServiceApplyConfiguration
	Budget        *policyv1ac.PodDisruptionBudgetApplyConfiguration
	NetworkPolicy *networkingv1ac.NetworkPolicyApplyConfiguration
	Autoscaler    *autoscalingv2ac.HorizontalPodAutoscalerApplyConfiguration

	// DeploymentErr is why it could not be decided what the Deployment should be.
	DeploymentErr error

	// ValuesErr is why the values of the environment are not known. The Deployment keeps the hash
	// of the values that it has.
	ValuesErr error

	// Delete are the objects of the Function that it needs no more.
	Delete []client.Object
}

// Of returns the Plan for a Function, given a Snapshot.
//
// While the source is invalid, the rest of the spec is applied to the last source that was
// valid, so that people can still scale and stop the function, and its objects are repaired.
// What exceeds the ceilings of the cluster is applied as far as they allow.
func Of(fn *v1beta1.Function, seen *observe.Snapshot) *Plan {
	if seen.CheckErr != nil {
		return &Plan{DeploymentErr: seen.CheckErr}
	}
	fn = withinCeilings(fn, seen.Settings)
	p := planner{Plan: &Plan{}, settings: seen.Settings, seen: seen}
	p.Problem = validation.InvalidSpec(seen.Verdict.Spec)
	p.AutoscalerConflict = autoscalerConflict(fn, seen.ForeignAutoscalers)
	p.Diagnostics, p.Omitted = seen.Verdict.Diagnostics()
	if p.Problem != nil {
		p.orderForReplicaSets(fn)
		return p.Plan
	}
	p.objects(fn)
	p.orderForReplicaSets(fn)
	p.deletions(fn)
	return p.Plan
}

// planner makes a Plan.
type planner struct {
	*Plan

	settings settings.Settings
	seen     *observe.Snapshot
	values   string
}

// objects plans the objects of a Function.
func (p *planner) objects(fn *v1beta1.Function) {
	valid := fn
	if p.seen.Verdict.Source != nil {
		valid = p.seen.Revision(fn, fn.Status.LatestRevision)
	}
	if valid == nil {
		p.keepRunningTemplate(fn)
	} else {
		p.planObjects(valid)
	}
	p.scaling(fn)
}

// planObjects plans the objects of a Function with a valid source.
func (p *planner) planObjects(fn *v1beta1.Function) {
	p.OverCeilings = validation.InvalidSpec(p.seen.Verdict.Excess)
	p.Source, p.Service = fn, desired.Service(fn)
	if p.resolveValuesHash() {
		p.Deployment, p.BuildService = p.deployment(fn)
	}
	if desired.NeedsBudget(fn, p.settings) {
		p.Budget = desired.Budget(fn)
	}
	p.networkPolicy(fn)
}

// networkPolicy plans the NetworkPolicy of the function. It is deleted if the settings ask for
// none, or if somebody else's policy selects the function's pods: policies add up, so that
// ours could only allow what the other one denies.
func (p *planner) networkPolicy(fn *v1beta1.Function) {
	pods := desired.Selector(fn.Name)
	switch {
	case p.Deployment != nil:
		pods = p.Deployment.Spec.Template.Labels
	case p.seen.OwnedFields != nil: // what it should be is not known
		pods = p.seen.Deployment.Spec.Template.Labels
	}
	if p.settings.NetworkPolicy && !p.seen.PolicySelects(pods) {
		p.NetworkPolicy = desired.NetworkPolicy(fn, p.settings)
	} else {
		p.deleteOwn(fn, p.seen.NetworkPolicy)
	}
}

// keepRunningTemplate is for a Function whose source is invalid and whose last valid source is
// lost as well: the pods go on running and are scaled, and the Service stays.
func (p *planner) keepRunningTemplate(fn *v1beta1.Function) {
	if p.seen.OwnedFields == nil {
		return
	}
	p.Service = desired.Service(fn)
	if p.seen.OwnedFields.Spec != nil {
		kept, meta, spec := *p.seen.OwnedFields, *p.seen.OwnedFields.ObjectMetaApplyConfiguration, *p.seen.OwnedFields.Spec
		spec.Replicas = nil
		if n, fixed := fn.FixedReplicas(); fixed {
			spec.WithReplicas(n)
		}
		kept.ObjectMetaApplyConfiguration, kept.Spec = &meta, &spec
		p.Deployment = &kept
	}
}

// resolveValuesHash sets the hash of the values that the environment of a function comes from. If
// they cannot be read now, that is the hash that the pods have, so that they are not rolled
// out. It returns false if there are no such pods either.
func (p *planner) resolveValuesHash() bool {
	if p.values = p.seen.Values.Hash; p.seen.ValuesErr == nil {
		return true
	}
	last, known := desired.ValuesIn(p.seen.OwnedFields)
	if !known {
		p.DeploymentErr = p.seen.ValuesErr
		return false
	}
	p.values, p.ValuesErr = last, p.seen.ValuesErr
	return true
}
