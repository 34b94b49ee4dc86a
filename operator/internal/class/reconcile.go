package class

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/workload"
)

// batchDelay is the time for which changes to functions are collected before their class is
// reconciled.
const batchDelay = 200 * time.Millisecond

// reconcile selects the functions of a class that are rolled out next, and reports the progress in
// its status.
func (c *Classes) reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	class := &v1beta1.FunctionClass{}
	err := c.cached.Get(ctx, request.NamespacedName, class)
	if apierrors.IsNotFound(err) {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.rollouts, request.Name)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	members, err := c.members(ctx, class)
	if err != nil {
		return reconcile.Result{}, err
	}
	before := c.rollouts[class.Name] // no lock needed: only this controller writes it
	now := time.Now()
	w := nextRollout(members, before, desired.ClassHash(&class.Spec), now)
	c.mu.Lock()
	c.rollouts[class.Name] = w
	c.mu.Unlock()
	if err := c.enqueueAdmitted(ctx, before, w); err != nil {
		return reconcile.Result{}, err
	}
	result := reconcile.Result{RequeueAfter: recheck(before, w, now)}
	conflict, err := c.DefaultConflict(ctx, class)
	if err != nil {
		return reconcile.Result{}, err
	}
	return result, c.report(ctx, class, progressOf(members, before), conflict)
}

// enqueueAdmitted enqueues the Functions that w admits and before did not.
func (c *Classes) enqueueAdmitted(ctx context.Context, before, w stagedRollout) error {
	for name := range w.admitted {
		if _, enqueued := before.admitted[name]; enqueued && before.hash == w.hash {
			continue
		}
		fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
		select {
		case c.admitted <- event.GenericEvent{Object: fn}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// members returns the functions of a class that have Deployments, sorted by name. It omits those
// whose first binary is still being compiled.
func (c *Classes) members(ctx context.Context, class *v1beta1.FunctionClass) ([]member, error) {
	var functions v1beta1.FunctionList
	var deployments appsv1.DeploymentList
	for _, list := range []client.ObjectList{&functions, &deployments} {
		if err := c.cached.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing %T: %w", list, err)
		}
	}
	deployed := map[types.UID]*appsv1.Deployment{}
	for i, d := range deployments.Items {
		if owner := metav1.GetControllerOfNoCopy(&d); owner != nil {
			deployed[owner.UID] = &deployments.Items[i]
		}
	}
	var members []member
	hasClass, hash := c.membership(class), desired.ClassHash(&class.Spec)
	for _, fn := range functions.Items {
		has, err := hasClass(ctx, &fn)
		if err != nil {
			return nil, err
		}
		d := deployed[fn.UID]
		if !has || d == nil {
			continue
		}
		facts := deploymentFacts(d)
		if facts.awaitsBuild {
			continue // a new function must not delay others
		}
		members = append(members, member{
			name: client.ObjectKeyFromObject(&fn), ready: functionFacts(&fn).ready,
			updated: facts.class == hash, rollout: facts.rollout, verified: facts.verified,
		})
	}
	slices.SortFunc(members, func(a, b member) int { return cmp.Compare(a.name.String(), b.name.String()) })
	return members, nil
}

// ofFunction is what a class uses of a Function.
type ofFunction struct {
	class string // spec.className
	ready bool
}

func functionFacts(fn *v1beta1.Function) ofFunction {
	return ofFunction{class: fn.Spec.ClassName, ready: meta.IsStatusConditionTrue(fn.Status.Conditions, v1beta1.ConditionReady)}
}

// ofDeployment is what a class uses of the Deployment of a Function.
type ofDeployment struct {
	owner       types.UID
	class       string // hash of the class that the Deployment matches
	awaitsBuild bool
	rollout     rollout
	verified    bool // waits for its verification
}

func deploymentFacts(d *appsv1.Deployment) ofDeployment {
	facts := ofDeployment{class: d.Labels[desired.ClassLabel], awaitsBuild: awaitsBuild(d), rollout: rolloutOf(d), verified: desired.BeingVerified(d)}
	if owner := metav1.GetControllerOfNoCopy(d); owner != nil {
		facts.owner = owner.UID
	}
	return facts
}

// awaitsBuild reports whether the pods of a Deployment wait for their first binary.
func awaitsBuild(d *appsv1.Deployment) bool {
	return desired.AwaitsBuildOf(d) && d.Status.ReadyReplicas == 0 && workload.Progressing(d).Reason != workload.NewReplicaSetAvailable
}

// membership returns a function that reports whether a Function has a class. It remembers the result
// by spec.className and namespace, which determine it.
func (c *Classes) membership(class *v1beta1.FunctionClass) func(context.Context, *v1beta1.Function) (bool, error) {
	known := map[[2]string]bool{}
	return func(ctx context.Context, fn *v1beta1.Function) (bool, error) {
		key := [2]string{fn.Spec.ClassName, fn.Namespace}
		if has, ok := known[key]; ok {
			return has, nil
		}
		has, err := c.hasClass(ctx, fn, class)
		if err == nil {
			known[key] = has
		}
		return has, err
	}
}

// hasClass reports whether a Function has this class.
func (c *Classes) hasClass(ctx context.Context, fn *v1beta1.Function, class *v1beta1.FunctionClass) (bool, error) {
	if fn.Spec.ClassName != "" && fn.Spec.ClassName != class.Name {
		return false, nil // avoids a read of a class that may not exist
	}
	its, _, err := c.Of(ctx, fn)
	return its != nil && its.Name == class.Name, err
}

// report writes the status of a class if it has changed. conflict is the result of DefaultConflict.
func (c *Classes) report(ctx context.Context, class *v1beta1.FunctionClass, p progress, conflict string) error {
	before := class.DeepCopy()
	class.Status.ObservedGeneration = class.Generation
	setConditions(class, p)
	class.Status.Functions, class.Status.UpdatedFunctions = int32(p.functions), int32(p.updated)
	if conflict == "" {
		meta.RemoveStatusCondition(&class.Status.Conditions, v1beta1.ConditionDefaultConflict)
	} else {
		meta.SetStatusCondition(&class.Status.Conditions, metav1.Condition{
			Type: v1beta1.ConditionDefaultConflict, Status: metav1.ConditionTrue, Reason: v1beta1.ReasonSeveralDefaults,
			Message: conflict, ObservedGeneration: class.Generation,
		})
	}
	if equality.Semantic.DeepEqual(before.Status, class.Status) {
		return nil
	}
	err := c.client.Status().Patch(ctx, class, client.MergeFrom(before))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	return nil
}

// setConditions sets the conditions Ready, Stalled and RolledOut of a class. An invalid selector
// selects no functions, so such a class is not rolled out. The rest of the status must be that of
// the previous reconciliation.
func setConditions(class *v1beta1.FunctionClass, p progress) {
	conditions := &class.Status.Conditions
	_, err := metav1.LabelSelectorAsSelector(class.Spec.NamespaceSelector)
	if err == nil {
		meta.RemoveStatusCondition(conditions, v1beta1.ConditionStalled)
		meta.SetStatusCondition(conditions, metav1.Condition{
			Type: v1beta1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1beta1.ReasonClassValid,
			Message: "functions can use the class", ObservedGeneration: class.Generation,
		})
		meta.SetStatusCondition(conditions, rolledOut(class, p))
		return
	}
	invalid := metav1.Condition{
		Reason: v1beta1.ReasonInvalidSpec, ObservedGeneration: class.Generation,
		Message: "no function uses the class, because spec.namespaceSelector is invalid: " + err.Error(),
	}
	for _, kind := range []string{v1beta1.ConditionReady, v1beta1.ConditionRolledOut} {
		invalid.Type, invalid.Status = kind, metav1.ConditionFalse
		meta.SetStatusCondition(conditions, invalid)
	}
	invalid.Type, invalid.Status = v1beta1.ConditionStalled, metav1.ConditionTrue
	meta.SetStatusCondition(conditions, invalid)
}

// rolledOut returns the condition RolledOut of a class. A class that was rolled out stays so while
// its functions have rollouts for other reasons. It does not if it gets more functions: their first
// rollout is not complete.
func rolledOut(class *v1beta1.FunctionClass, p progress) metav1.Condition {
	c := metav1.Condition{
		Type: v1beta1.ConditionRolledOut, Status: metav1.ConditionTrue, Reason: v1beta1.ReasonClassRolledOut,
		Message: "all functions of the class are up to date", ObservedGeneration: class.Generation,
	}
	before := meta.FindStatusCondition(class.Status.Conditions, v1beta1.ConditionRolledOut)
	if before != nil && before.Status == metav1.ConditionTrue && before.ObservedGeneration == class.Generation &&
		p.updated == p.functions && p.functions <= int(class.Status.Functions) {
		return c
	}
	if p.complete < p.functions {
		c.Status, c.Reason = metav1.ConditionFalse, v1beta1.ReasonClassRollingOut
		c.Message = fmt.Sprintf("%d of %d functions up to date, %d rolling out", p.complete, p.functions, p.rolling)
	}
	if failed := p.failed; len(failed) > 0 { // failed functions are not complete
		c.Reason = v1beta1.ReasonClassRolloutFailed
		c.Message += fmt.Sprintf(", %d failed; see the status of Function %s", len(failed), failed[0])
	}
	return c
}
