// Package plan decides how to change the objects of a Function. It computes a Plan from the
// Function and a Snapshot, which contains the state of the cluster and the settings. It does not
// read from or write to the cluster, so table tests can cover every decision.
package plan

import (
	"time"

	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	autoscalingv2ac "k8s.io/client-go/applyconfigurations/autoscaling/v2"
	batchv1ac "k8s.io/client-go/applyconfigurations/batch/v1"
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

// Plan contains the changes to make for a Function.
type Plan struct {
	// Problem is the reason why the spec is invalid; nil if it is valid. Nothing of an invalid spec
	// is applied.
	Problem *validation.Problem

	// OverLimits reports the fields of the spec that exceed the maximums of the cluster; nil if
	// there are none. These fields are applied with the maximum.
	OverLimits *validation.Problem

	// AutoscalerConflict reports the HorizontalPodAutoscalers of other owners that scale the
	// Deployment, in which case the operator does not change the number of replicas; nil if there
	// are none.
	AutoscalerConflict *validation.Problem

	// Diagnostics are the errors for which the source is rejected. Omitted is the number of errors
	// that are not listed.
	Diagnostics []v1beta1.Diagnostic
	Omitted     int32

	// Orders are the builds to request from the build service. Each element is the Function with the
	// source to compile: the latest, or that of a revision with pods. All other orders of the Function
	// except TestOrder are canceled.
	Orders []*v1beta1.Function

	// DoubtOrders reports whether pods may be fetching a binary that the build service has built
	// and then lost, so that it is asked again.
	DoubtOrders bool

	// TestOrder is the Function whose tests to compile; nil for none.
	TestOrder *v1beta1.Function

	// TestJob is the Job to create that runs the tests, and TestPolicy the NetworkPolicy of its pod;
	// nil for none. TestDelay is the time after which to reconcile again because of the tests; 0 for
	// never.
	TestJob    *batchv1ac.JobApplyConfiguration
	TestPolicy *networkingv1ac.NetworkPolicyApplyConfiguration
	TestDelay  time.Duration

	// Build is the state of the build of the latest source. It is nil if the pods compile the
	// source and no tests are required, if the spec is invalid or was rolled back, or if the source or
	// the referenced values are unknown.
	Build *BuildState

	// Source is the Function with the source to store in a ConfigMap; nil if there is nothing to
	// store.
	Source *v1beta1.Function

	// RecordName is the name of the ControllerRevision of the Deployment in this plan; empty if the
	// Deployment is not recorded, or not yet. IsLatest reports whether the Deployment has the latest
	// spec.
	RecordName string
	IsLatest   bool

	// Record is the ControllerRevision to create, and RecordData its data; nil if it exists.
	// RecordNumber is the new number of one that exists; 0 if it keeps its number.
	Record       *appsv1ac.ControllerRevisionApplyConfiguration
	RecordData   *desired.RecordData
	RecordNumber int64

	// RecordOfSpec is the name of an earlier ControllerRevision of the same spec as Record, from which
	// that spec is copied, because only the template was repaired; empty if it is the spec of the
	// Function.
	RecordOfSpec string

	// AwaitsBuild reports whether the binary of the Deployment is still being compiled. If the Snapshot
	// has no Deployment, this one is created, and never overwrites one that the cache does not contain
	// yet.
	AwaitsBuild bool

	// Scale is the number of replicas to set on the Deployment before it is applied; it is not part
	// of the applied fields. It is nil if the number does not change.
	Scale *int32

	// DeploymentDelay is the maximum time to wait before the Deployment is applied, because its
	// current pods are starting; 0 to apply it now.
	DeploymentDelay time.Duration

	// Verification is the state of the verification of the rollout; nil if it is not verified.
	// VerificationDelay is the time until the operator decides without a report; 0 if it does not wait.
	Verification      *Verification
	VerificationDelay time.Duration

	// The objects to apply. Objects that are nil are not applied.
	Deployment    *appsv1ac.DeploymentApplyConfiguration
	Service       *corev1ac.ServiceApplyConfiguration
	Budget        *policyv1ac.PodDisruptionBudgetApplyConfiguration
	NetworkPolicy *networkingv1ac.NetworkPolicyApplyConfiguration
	Autoscaler    *autoscalingv2ac.HorizontalPodAutoscalerApplyConfiguration

	// DeploymentErr is the reason why the Deployment could not be planned.
	DeploymentErr error

	// ValuesErr is the reason why the values that the environment and the files refer to are
	// unknown. The Deployment keeps its hash of the values.
	ValuesErr error

	// Delete are the objects of the Function that are no longer needed.
	Delete []client.Object
}

// Of returns the Plan for a Function, given a Snapshot.
//
// While the source is invalid, the rest of the spec is applied to the last valid source, so that
// the function can still be scaled and stopped, and its objects are repaired. Values above the
// maximums of the cluster are reduced to them.
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
		if p.hasOnlyWaitingPods(fn) {
			p.deleteOwn(fn, p.seen.Deployment)
		}
		p.planRollBack(fn)
		p.orderForReplicaSets(fn)
		return p.Plan
	}
	p.objects(fn)
	p.orderForReplicaSets(fn)
	p.record(fn)
	p.deletions(fn)
	return p.Plan
}

// planner builds a Plan.
type planner struct {
	*Plan

	settings      settings.Settings
	seen          *observe.Snapshot
	values        string
	specHash      string // of the latest valid spec
	neededTestJob string // name of the Job for the tests of the latest valid version; empty if it needs none

	// compiledInPods is the Deployment of the latest valid spec in which each pod compiles the source.
	compiledInPods *appsv1ac.DeploymentApplyConfiguration
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
	p.OverLimits = validation.InvalidSpec(p.seen.Verdict.LimitErrors)
	p.Source, p.Service = fn, desired.Service(fn)
	if p.resolveValuesHash() {
		p.Deployment, p.Build = p.deployment(fn)
		p.planVerification(fn)
	}
	if desired.NeedsBudget(fn, p.settings) {
		p.Budget = desired.Budget(fn)
	}
	p.networkPolicy(fn)
}

// networkPolicy plans the NetworkPolicy of the function. It is deleted if the settings disable it,
// or if another NetworkPolicy selects the function's pods: policies are additive, so the operator's
// policy could only allow what the other one denies.
func (p *planner) networkPolicy(fn *v1beta1.Function) {
	pods := desired.Selector(fn.Name)
	switch {
	case p.Deployment != nil:
		pods = p.Deployment.Spec.Template.Labels
	case p.seen.OwnedFields != nil: // the desired pod template is unknown
		pods = p.seen.Deployment.Spec.Template.Labels
	}
	if p.settings.NetworkPolicy && !p.seen.PolicySelects(pods) {
		p.NetworkPolicy = desired.NetworkPolicy(fn, p.settings)
	} else {
		p.deleteOwn(fn, p.seen.NetworkPolicy)
	}
}

// keepRunningTemplate plans a Function whose source is invalid and whose last valid source is lost:
// the pods keep running and can be scaled, and the Service is kept.
func (p *planner) keepRunningTemplate(fn *v1beta1.Function) {
	if p.seen.OwnedFields == nil {
		return
	}
	if p.hasOnlyWaitingPods(fn) {
		p.deleteOwn(fn, p.seen.Deployment)
		return
	}
	p.Service = desired.Service(fn)
	if applied := p.seen.Applied(); applied.Spec != nil {
		kept, meta, spec := *applied, *applied.ObjectMetaApplyConfiguration, *applied.Spec
		spec.Replicas = nil
		if n, fixed := fn.FixedReplicas(); fixed {
			spec.WithReplicas(n)
		}
		kept.ObjectMetaApplyConfiguration, kept.Spec = &meta, &spec
		p.Deployment = &kept
	}
}

// resolveValuesHash sets the hash of the values that the environment of a function refers to. If
// the values cannot be read, it uses the hash of the current pods, so that they are not rolled out.
// It returns false if there are no such pods either.
func (p *planner) resolveValuesHash() bool {
	if p.values = p.seen.Values.Hash; p.seen.ValuesErr == nil {
		return true
	}
	last, known := desired.ValuesIn(p.seen.Applied())
	if !known {
		p.DeploymentErr = p.seen.ValuesErr
		return false
	}
	p.values, p.ValuesErr = last, p.seen.ValuesErr
	return true
}
