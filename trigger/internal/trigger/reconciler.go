// Package trigger reconciles all kinds of triggers, in the same four steps: what there is is
// observed, what there shall be is planned, the plan is applied, and what is true after that is
// reported. A Kind knows what is special about one of them; this package knows none.
package trigger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"goless.io/trigger/api/v1alpha1"
	"goless.io/trigger/internal/apply"
	"goless.io/trigger/internal/target"
)

// recheck is after how long a trigger is looked at again that somebody else has to make room
// for, although nothing has changed that is watched.
const recheck = time.Minute

// A Kind is what is special about one kind of triggers. S is what is seen of one.
type Kind[T v1alpha1.Trigger, S any] interface {
	// New returns an empty trigger.
	New() T

	// Observe reads all that a decision about a trigger needs, once.
	Observe(context.Context, T) (S, error)

	// Plan decides what to do. It reads and writes nothing.
	Plan(T, S) Plan

	// Report writes what only this kind has into the status, and returns after how long that
	// may be out of date without a change that is watched; 0 for never.
	Report(T, S) time.Duration
}

// A Plan is what to do about a trigger.
type Plan struct {
	// Problem is why the trigger is not ready; nil when nothing is known.
	Problem *target.Problem

	// Note is what a user should know of a trigger that is ready; "" for nothing.
	Note string

	// Changes are made one after the other, also after an error.
	Changes []apply.Change
}

// Reconciler reconciles the triggers of one kind.
type Reconciler[T v1alpha1.Trigger, S any] struct {
	// Client reads from the manager's cache.
	Client client.Client

	// Live reads from the API server what the cache does not have.
	Live client.Reader

	// Events records the events of triggers.
	Events events.EventRecorder

	// Kind is that of the triggers.
	Kind Kind[T, S]
}

// Reconcile observes, plans, applies and reports.
func (r *Reconciler[T, S]) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	t := r.Kind.New()
	if err := r.Client.Get(ctx, request.NamespacedName, t); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if t.GetDeletionTimestamp() != nil {
		return reconcile.Result{}, nil // the garbage collector deletes what it owns
	}
	seen, err := r.Kind.Observe(ctx, t)
	if err != nil {
		return reconcile.Result{}, err
	}
	planned := r.Kind.Plan(t, seen)
	problem, err := r.apply(ctx, t, planned)
	before := t.DeepCopyObject().(T)
	again := r.Kind.Report(t, seen)
	report(t, problem, planned.Note)
	if err := errors.Join(err, r.write(ctx, before, t)); err != nil {
		return retry(err)
	}
	if problem != nil && problem.Reason == v1alpha1.ReasonNotOwned {
		again = recheck
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// apply makes the changes of a plan. What keeps one from being made is the problem of the
// trigger, before that of the plan. An error is returned where trying again may help.
func (r *Reconciler[T, S]) apply(ctx context.Context, t T, p Plan) (*target.Problem, error) {
	problem := p.Problem
	var failed error
	for _, change := range p.Changes {
		err := change.Make(ctx, r.Client, r.Live, t)
		var foreign *apply.NotOwnedError
		switch {
		case err == nil, apierrors.IsConflict(err):
			failed = errors.Join(failed, err)
		case errors.As(err, &foreign):
			problem = &target.Problem{Reason: v1alpha1.ReasonNotOwned, Message: err.Error(), Stalled: true}
		case apierrors.IsInvalid(err):
			problem = &target.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: err.Error(), Stalled: true}
		default:
			problem = &target.Problem{Reason: v1alpha1.ReasonApplyFailed, Message: err.Error()}
			failed = errors.Join(failed, err)
		}
	}
	return problem, failed
}

// report writes the conditions into the status that follow from a problem, or from none.
func report(t v1alpha1.Trigger, problem *target.Problem, note string) {
	status := t.CommonStatus()
	status.ObservedGeneration = t.GetGeneration()
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady, Message: "the trigger is set up"}
	if note != "" {
		ready.Message += "; " + note
	}
	if problem != nil {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, problem.Reason, problem.Message
	}
	set := func(kind string, on bool) {
		if !on {
			meta.RemoveStatusCondition(&status.Conditions, kind)
			return
		}
		c := ready
		c.Type, c.ObservedGeneration = kind, t.GetGeneration()
		if kind != v1alpha1.ConditionReady {
			c.Status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&status.Conditions, c)
	}
	set(v1alpha1.ConditionReady, true)
	set(v1alpha1.ConditionReconciling, problem != nil && !problem.Stalled)
	set(v1alpha1.ConditionStalled, problem != nil && problem.Stalled)
}

// write writes the status if it has changed, and records an event where a condition has become
// false, or is false for another reason.
func (r *Reconciler[T, S]) write(ctx context.Context, before, t T) error {
	if equality.Semantic.DeepEqual(before, t) {
		return nil
	}
	body, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("encoding the status: %w", err)
	}
	var object struct {
		Status json.RawMessage `json:"status"`
	}
	if err := json.Unmarshal(body, &object); err != nil {
		return fmt.Errorf("encoding the status: %w", err)
	}
	// The patch names the UID, so that it does not change another trigger of the same name.
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": t.GetUID()},
		{"op": "add", "path": "/status", "value": object.Status},
	})
	if err != nil {
		return fmt.Errorf("encoding the status: %w", err)
	}
	written := t.DeepCopyObject().(T)
	if err := r.Client.Status().Patch(ctx, written, client.RawPatch(types.JSONPatchType, patch)); err != nil {
		return client.IgnoreNotFound(err)
	}
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionDelivered} {
		was, is := meta.FindStatusCondition(before.CommonStatus().Conditions, kind), meta.FindStatusCondition(t.CommonStatus().Conditions, kind)
		if is != nil && is.Status == metav1.ConditionFalse && (was == nil || was.Status != is.Status || was.Message != is.Message) {
			r.Events.Eventf(t, nil, corev1.EventTypeWarning, is.Reason, "Reconcile", "%s", is.Message)
		}
	}
	return nil
}

// retry returns the result for an error. A conflict is expected, and the end of the namespace
// too: neither is logged.
func retry(err error) (reconcile.Result, error) {
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: 50 * time.Millisecond}, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, err
}
