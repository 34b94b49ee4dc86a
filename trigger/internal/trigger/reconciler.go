// Package trigger reconciles all kinds of triggers in the same four steps: it observes the state,
// plans the changes, applies them and reports the result. A Kind implements what is specific to one
// kind of trigger.
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
	"goless.io/trigger/internal/functionref"
)

// recheck is the requeue delay for a trigger that conflicts with an object of another owner, which
// is not watched.
const recheck = time.Minute

// A Kind implements what is specific to one kind of triggers. S is the observed state of a trigger.
type Kind[T v1alpha1.Trigger, S any] interface {
	// New returns an empty trigger.
	New() T

	// Observe reads everything that the decisions about a trigger need.
	Observe(context.Context, T) (S, error)

	// Plan decides what to do. It does not read or write.
	Plan(T, S) Plan

	// Report sets the parts of the status that are specific to the kind. It returns the requeue
	// delay after which the status may be outdated without a watched change; 0 means never.
	Report(T, S) time.Duration
}

// A Plan is the desired state of a trigger.
type Plan struct {
	// Problem is the reason why the trigger is not ready, or nil if none is known.
	Problem *functionref.Problem

	// Note is additional information in the condition Ready of a trigger that is ready. It may be
	// empty.
	Note string

	// Changes are made in order. An error does not stop the following changes.
	Changes []apply.Change
}

// Reconciler reconciles the triggers of one kind.
type Reconciler[T v1alpha1.Trigger, S any] struct {
	// Client reads from the manager's cache.
	Client client.Client

	// Live reads objects from the API server that are not in the cache.
	Live client.Reader

	// Events records Events for triggers.
	Events events.EventRecorder

	// Kind is the kind of the triggers.
	Kind Kind[T, S]
}

// Reconcile observes, plans, applies and reports.
func (r *Reconciler[T, S]) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	t := r.Kind.New()
	if err := r.Client.Get(ctx, request.NamespacedName, t); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if t.GetDeletionTimestamp() != nil {
		return reconcile.Result{}, nil // the garbage collector deletes the objects of the trigger
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

// apply makes the changes in a plan. It returns the problem of the trigger: the reason why a change
// was not made, or else the problem of the plan. It returns an error if a retry may help.
func (r *Reconciler[T, S]) apply(ctx context.Context, t T, p Plan) (*functionref.Problem, error) {
	problem := p.Problem
	var failed error
	for _, change := range p.Changes {
		err := change.Make(ctx, r.Client, r.Live, t)
		var foreign *apply.NotOwnedError
		switch {
		case err == nil, apierrors.IsConflict(err):
			failed = errors.Join(failed, err)
		case errors.As(err, &foreign):
			problem = &functionref.Problem{Reason: v1alpha1.ReasonNotOwned, Message: err.Error(), Stalled: true}
		case apierrors.IsInvalid(err):
			problem = &functionref.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: err.Error(), Stalled: true}
		default:
			problem = &functionref.Problem{Reason: v1alpha1.ReasonApplyFailed, Message: err.Error()}
			failed = errors.Join(failed, err)
		}
	}
	return problem, failed
}

// report sets the conditions for a problem, or for none if problem is nil.
func report(t v1alpha1.Trigger, problem *functionref.Problem, note string) {
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

// write writes the status if it has changed. It records an Event for each condition that has become
// False or is False with a different message.
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
	// The patch tests the UID, so that it does not change another trigger of the same name.
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

// retry returns the result for an error. Conflicts and the termination of the namespace are
// expected and are not logged.
func retry(err error) (reconcile.Result, error) {
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: 50 * time.Millisecond}, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, err
}
