// Package consumer reconciles KafkaTriggers and NATSTriggers: it creates the Deployment of the
// consumers and reports the status of its pods. A Program contains what is specific to a broker.
package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/trigger/api/v1alpha1"
	"goless.io/trigger/internal/apply"
	"goless.io/trigger/internal/functionref"
	"goless.io/trigger/internal/keda"
	"goless.io/trigger/internal/stream"
	"goless.io/trigger/internal/trigger"
)

// Kind implements trigger.Kind for triggers that consume a stream.
type Kind[T v1alpha1.StreamTrigger] struct {
	// Client reads from the cache.
	Client client.Client

	// Image is the image of cmd/consume.
	Image string

	// KEDA reports whether KEDA is installed (the cluster has the kind ScaledObject).
	KEDA bool

	// Empty returns an empty trigger.
	Empty func() T

	// Program returns the program of the pods of a trigger. The error names the invalid field.
	Program func(T) (Program, error)

	// Ask queries a pod for its status.
	Ask func(context.Context, *corev1.Pod) (stream.Status, error)
}

// Seen is the observed state of a trigger.
type Seen struct {
	Function     v1beta1.Function
	Deployment   *appsv1.Deployment // with the name of the Deployment of the trigger, regardless of its owner
	Former       *appsv1.Deployment // with the name of the trigger, as created by earlier releases of Goless; regardless of its owner
	Service      *corev1.Service
	ScaledObject *unstructured.Unstructured // nil without KEDA
	Scalers      []v1alpha1.StreamTrigger   // the stream triggers with spec.scale that call the same Function; empty if this trigger has no spec.scale

	Answers           // of the pods
	Time    time.Time // when the pods were queried
}

// New returns an empty trigger.
func (k Kind[T]) New() T { return k.Empty() }

// Observe reads the Function and the objects of the trigger, and queries its pods.
func (k Kind[T]) Observe(ctx context.Context, t T) (Seen, error) {
	seen := Seen{Time: time.Now(), Deployment: &appsv1.Deployment{}, Former: &appsv1.Deployment{}, Service: &corev1.Service{}}
	var pods corev1.PodList
	read := func(name string, object client.Object) error {
		return client.IgnoreNotFound(k.Client.Get(ctx, client.ObjectKey{Namespace: t.GetNamespace(), Name: name}, object))
	}
	errs := []error{
		read(t.CommonSpec().FunctionRef.Name, &seen.Function),
		read(deploymentName(t), seen.Deployment),
		read(t.GetName(), seen.Former),
		read(serviceName(t), seen.Service),
		k.Client.List(ctx, &pods, client.InNamespace(t.GetNamespace()), client.MatchingLabels(apply.Labels(t))),
	}
	if k.KEDA {
		seen.ScaledObject = keda.New()
		errs = append(errs, read(t.GetName(), seen.ScaledObject))
	}
	if t.CommonSpec().Scale != nil {
		scalers, err := k.scalersOf(ctx, t.GetNamespace(), t.CommonSpec().FunctionRef.Name)
		seen.Scalers, errs = scalers, append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return Seen{}, fmt.Errorf("reading the objects of %s %q: %w", t.TriggerKind(), t.GetName(), err)
	}
	if metav1.IsControlledBy(seen.Deployment, t) {
		seen.Answers = k.ask(ctx, podsOf(seen.Deployment, pods.Items))
	}
	return seen, nil
}

// Plan returns the desired Deployment and, if the trigger needs them, the ScaledObject, and the
// Service through which KEDA queries the pods. If the spec is invalid, the Deployment is not
// changed. Without a Function, the Deployment has no pod.
//
// Earlier releases of Goless gave the Deployment the name of the trigger. Such a Deployment is
// replaced as in a Recreate rollout: the new Deployment has no replicas until the former Deployment
// and its pods are deleted, so that two consumers never deliver concurrently. The former Deployment
// keeps consuming while the new one cannot be created.
func (k Kind[T]) Plan(t T, seen Seen) trigger.Plan {
	program, err := k.Program(t)
	if err := cmp.Or[error](err, t.CommonSpec().Resources.Validate(field.NewPath("spec", "resources")).ToAggregate()); err != nil {
		return trigger.Plan{Problem: mistake(err.Error())}
	}
	to := functionref.Of(&seen.Function, t.CommonSpec().FunctionRef.Name)
	p := trigger.Plan{Problem: to.Problem}
	if t.CommonSpec().Scale != nil && to.Problem != nil && to.Problem.Reason == v1alpha1.ReasonFunctionStopped {
		p.Problem = nil // KEDA has stopped it, and starts it when events wait
	}
	url, replacing := seen.Function.Status.URL, metav1.IsControlledBy(seen.Former, t)
	if replacing {
		url = "" // no pods yet
	}
	change := apply.To(Deployment(t, program, to, url, k.Image), seen.Deployment, appsv1ac.ExtractDeployment)
	p.Changes = append(p.Changes, change)
	if replacing && metav1.IsControlledBy(seen.Deployment, t) {
		p.Changes = append(p.Changes, apply.GoneAfterPods(seen.Former))
	}
	if p.Problem == nil {
		p.Problem = notReady(seen, change.Same())
	}
	scaled, note, problem := k.scale(t, seen)
	if problem == nil && p.Problem == nil {
		var paused string
		paused, problem = scalingState(t, seen)
		note = cmp.Or(paused, note)
	}
	if problem != nil {
		if to.Problem != nil && to.Problem.Reason == v1alpha1.ReasonFunctionStopped {
			problem.Message += "; " + to.Problem.Message
		}
		p.Problem = problem
	}
	p.Note = note
	p.Changes = append(p.Changes, scaled...)
	return p
}

// mistake returns a problem that only a change to the trigger or to the cluster can solve.
func mistake(message string) *functionref.Problem {
	return &functionref.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: message, Stalled: true}
}

// notReady returns the reason why no events are received, or nil. same reports whether the
// Deployment is in its desired state.
func notReady(seen Seen, same bool) *functionref.Problem {
	for _, p := range seen.Problems {
		if p.Reason == v1alpha1.ReasonNotConnected || p.Reason == v1alpha1.ReasonConsumerNotReady {
			return &functionref.Problem{Reason: p.Reason, Message: p.Message}
		}
	}
	d := seen.Deployment
	if same && d.Status.ObservedGeneration >= d.Generation && d.Status.UpdatedReplicas > 0 && (d.Status.ReadyReplicas > 0 || len(seen.Problems) > 0) {
		return nil
	}
	message := "the consumer pod has not started"
	if why := podsNotCreated(d); same && why != "" {
		message = why
	}
	return &functionref.Problem{Reason: v1alpha1.ReasonConsumerNotReady, Message: message}
}
