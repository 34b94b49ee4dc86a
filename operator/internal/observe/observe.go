// Package observe reads the objects of a Function into a Snapshot, from which package plan decides
// what to change. It also configures the cache of the operator.
package observe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/buildclient"
	"goless.io/operator/internal/class"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/references"
	"goless.io/operator/internal/settings"
)

// Observer takes Snapshots.
type Observer struct {
	// Client reads from the manager's cache. A Get waits until the cache contains the client's last
	// write of the object, unless the settings list several namespaces.
	Client client.Client

	// Live reads from the API server the data of ControllerRevisions, which is not in the cache.
	Live client.Reader

	// Sources reads sources, which are not in the cache either.
	Sources *Sources

	// Settings are the cluster settings, and Classes override them for some Functions.
	Settings settings.Settings
	Classes  *class.Classes

	// Accounts checks which ServiceAccounts functions may run as.
	Accounts Accounts

	// References returns the hashes of the values that Functions refer to.
	References *references.References

	// Orders contains the answers of the build service.
	Orders *buildclient.Orders

	// Activators reports whether a replica of the activator is ready.
	Activators *Activators
}

// Look takes a Snapshot of a Function. If the source has not been validated yet, Look also loads it
// into the Function.
func (o *Observer) Look(ctx context.Context, fn *v1beta1.Function) (*Snapshot, error) {
	s := &Snapshot{
		Time: time.Now(), Source: &corev1.ConfigMap{}, Deployment: &appsv1.Deployment{}, Service: &corev1.Service{},
		Budget: &policyv1.PodDisruptionBudget{}, NetworkPolicy: &networkingv1.NetworkPolicy{}, TestPolicy: &networkingv1.NetworkPolicy{}, Autoscaler: &autoscalingv2.HorizontalPodAutoscaler{},
		Answers: o.Orders.Answers(client.ObjectKeyFromObject(fn)), RevisionsInUse: map[string]bool{},
	}
	functionClass, err := o.resolveClass(ctx, fn, s)
	if err != nil {
		return nil, err
	}
	if err := o.read(ctx, fn, s); err != nil {
		return nil, err
	}
	s.Values, s.ValuesErr = o.References.Of(ctx, fn)
	if metav1.IsControlledBy(s.Deployment, fn) {
		s.AwaitsClass = s.Deployment.Labels[desired.ClassLabel] != desired.ClassHash(s.Settings.Class) && !o.Classes.Admits(fn, functionClass)
	}
	return s, nil
}

// resolveClass determines the settings of a Function, validates it and returns its class. If the
// class or the permissions of the ServiceAccount cannot be read and the spec is new, the error is
// stored in CheckErr. Otherwise it is returned, so that the status does not change.
func (o *Observer) resolveClass(ctx context.Context, fn *v1beta1.Function, s *Snapshot) (*v1beta1.FunctionClass, error) {
	functionClass, wrongClass, classErr := o.Classes.Of(ctx, fn)
	if classErr != nil {
		classErr = fmt.Errorf("finding the FunctionClass: %w", classErr)
	}
	wrongAccount, accountErr := o.Accounts.check(ctx, fn)
	err := errors.Join(classErr, accountErr)
	if err != nil && fn.Status.ObservedGeneration == fn.Generation {
		return nil, err
	}
	s.Settings = o.Settings.Of(functionClass)
	s.Verdict, s.CheckErr = o.Sources.check(ctx, fn, s.Settings)
	s.CheckErr = errors.Join(err, s.CheckErr)
	for _, wrong := range []*field.Error{wrongClass, wrongAccount} {
		if wrong != nil {
			s.Verdict.Spec = append(s.Verdict.Spec, wrong)
		}
	}
	return functionClass, nil
}

// read reads the objects with the names or the label of a Function.
func (o *Observer) read(ctx context.Context, fn *v1beta1.Function, s *Snapshot) error {
	var replicaSets appsv1.ReplicaSetList
	var pods corev1.PodList
	var services corev1.ServiceList
	var sources corev1.ConfigMapList
	var records appsv1.ControllerRevisionList
	var routes discoveryv1.EndpointSliceList
	err := errors.Join(
		o.get(ctx, fn, desired.ConfigMapName(fn, desired.LatestRevision(fn)), s.Source), o.get(ctx, fn, fn.Name, s.Deployment),
		o.get(ctx, fn, fn.ServiceName(), s.Service), o.get(ctx, fn, fn.Name, s.Budget), o.get(ctx, fn, fn.Name, s.NetworkPolicy),
		o.get(ctx, fn, desired.TestPolicyName(fn), s.TestPolicy),
		o.get(ctx, fn, fn.Name, s.Autoscaler),
		o.list(ctx, fn, &replicaSets), o.list(ctx, fn, &pods), o.list(ctx, fn, &services), o.list(ctx, fn, &sources),
		o.list(ctx, fn, &records), o.list(ctx, fn, &routes), o.foreignPolicies(ctx, fn, s), o.foreignAutoscalers(ctx, fn, s))
	if err == nil {
		s.TestRuns, err = o.testRuns(ctx, fn)
	}
	if err == nil {
		s.Activator.Ready, err = o.Activators.Ready(ctx)
	}
	if err != nil {
		return err
	}
	s.Orphans = orphans(fn, slices.Concat([]client.Object{s.Deployment, s.Budget, s.NetworkPolicy, s.TestPolicy, s.Autoscaler}, pointers(services.Items), pointers(sources.Items), pointers(records.Items))...)
	s.Services, s.Sources, s.Records = owned(services.Items, fn.UID), owned(sources.Items, fn.UID), owned(records.Items, fn.UID)
	desired.SortRecords(s.Records)
	s.Activator.read(routes.Items, s.Services)
	s.running(replicaSets.Items, pods.Items)
	if !metav1.IsControlledBy(s.Deployment, fn) {
		return nil
	}
	s.ReplicaSets = owned(replicaSets.Items, s.Deployment.UID)
	for _, set := range s.ReplicaSets {
		s.Pods = append(s.Pods, owned(pods.Items, set.UID)...)
	}
	if s.OwnedFields, err = appsv1ac.ExtractDeployment(s.Deployment, desired.FieldOwner); err != nil {
		return fmt.Errorf("reading the managed fields of Deployment %q: %w", fn.Name, err)
	}
	s.RecordedTemplate, err = o.recordedTemplate(ctx, fn, s)
	if previous := desired.VerificationIn(s.OwnedFields).Previous; err == nil && previous != nil {
		s.PreviousTemplate, err = o.templateIn(ctx, fn, previous.Record)
	}
	return err
}

// foreignPolicies lists the NetworkPolicies that do not belong to a Function, if the settings
// enable NetworkPolicies.
func (o *Observer) foreignPolicies(ctx context.Context, fn *v1beta1.Function, s *Snapshot) error {
	if !o.Settings.NetworkPolicy {
		return nil
	}
	var all networkingv1.NetworkPolicyList
	if err := o.Client.List(ctx, &all, client.InNamespace(fn.Namespace), client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency); err != nil {
		return fmt.Errorf("listing NetworkPolicies: %w", err)
	}
	for _, policy := range all.Items {
		if !OfAFunction(&policy) {
			s.ForeignPolicies = append(s.ForeignPolicies, policy)
		}
	}
	return nil
}

// foreignAutoscalers lists the HorizontalPodAutoscalers that scale the Deployment of a Function and
// do not belong to a Function.
func (o *Observer) foreignAutoscalers(ctx context.Context, fn *v1beta1.Function, s *Snapshot) error {
	var all autoscalingv2.HorizontalPodAutoscalerList
	err := o.Client.List(ctx, &all, client.InNamespace(fn.Namespace), client.MatchingFields{byScaleTarget: fn.Name}, client.DisableReadYourWritesConsistency)
	if err != nil {
		return fmt.Errorf("listing HorizontalPodAutoscalers: %w", err)
	}
	s.ForeignAutoscalers = slices.DeleteFunc(all.Items, func(a autoscalingv2.HorizontalPodAutoscaler) bool { return OfAFunction(&a) })
	return nil
}

// get reads an object from the cache, see Observer.Client. An object that does not exist stays
// empty.
func (o *Observer) get(ctx context.Context, fn *v1beta1.Function, name string, into client.Object) error {
	if err := o.Client.Get(ctx, client.ObjectKey{Namespace: fn.Namespace, Name: name}, into); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading %T: %w", into, err)
	}
	return nil
}

// list reads the objects with the Function's label from the cache. Owner references determine which
// of them belong to the Function, because any client can set a label. It does not wait for the last
// write of the operator, which may concern another Function and may hang.
func (o *Observer) list(ctx context.Context, fn *v1beta1.Function, into client.ObjectList) error {
	if err := o.Client.List(ctx, into, client.InNamespace(fn.Namespace), client.MatchingFields{byFunction: fn.Name}, client.DisableReadYourWritesConsistency); err != nil {
		return fmt.Errorf("listing %T: %w", into, err)
	}
	return nil
}
