// Package observe reads all that a decision about a Function needs, once, into a Snapshot.
// It also says what the cache of the operator keeps.
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
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/account"
	"goless.io/operator/internal/build"
	"goless.io/operator/internal/check"
	"goless.io/operator/internal/class"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/references"
	"goless.io/operator/internal/settings"
)

// A Snapshot is the state of a Function's objects in the cluster at one time.
type Snapshot struct {
	// Time is when it was taken.
	Time time.Time

	// Settings are those for the Function: of its class, and of the operator.
	Settings settings.Settings

	// AwaitsClass tells that the pods do not follow their class yet. When a class changes, only some
	// of its functions are rolled out at the same time.
	AwaitsClass bool

	// Verdict is what is wrong with the spec and the source of the Function. CheckErr is why
	// that is not known, because the source, the class or the rights of the account cannot be read.
	Verdict  check.Result
	CheckErr error

	// These are the objects with the names that the Function needs, whoever they belong to.
	// One that does not exist has no UID.
	Source        *corev1.ConfigMap
	Deployment    *appsv1.Deployment
	Service       *corev1.Service
	Budget        *policyv1.PodDisruptionBudget
	NetworkPolicy *networkingv1.NetworkPolicy
	Autoscaler    *autoscalingv2.HorizontalPodAutoscaler

	// OwnedFields are the fields of the Function's own Deployment that the operator has
	// written; nil when there is no such Deployment.
	OwnedFields *appsv1ac.DeploymentApplyConfiguration

	// Services and Sources are all that belong to the Function, those of former specs
	// as well.
	Services []corev1.Service
	Sources  []corev1.ConfigMap

	// ReplicaSets belong to the Function's Deployment, and Pods to them.
	ReplicaSets []appsv1.ReplicaSet
	Pods        []corev1.Pod

	// RevisionsInUse are the revisions that pods run or may start again from. Pods count even if
	// they do not belong to the Function, because orphaned ones go on running.
	RevisionsInUse map[string]bool

	// ForeignPolicies are the NetworkPolicies of the namespace that belong to no Function.
	ForeignPolicies []networkingv1.NetworkPolicy

	// Values are what the environment and the files of the function have from ConfigMaps and
	// Secrets. ValuesErr is why that is not known.
	Values    references.Values
	ValuesErr error

	// Answers are what the build service says of the sources that were ordered, by
	// their SHA-256.
	Answers map[string]build.Answer
}

// Observer takes Snapshots.
type Observer struct {
	// Client reads from the manager's cache, and finds its own writes there.
	Client client.Client

	// Sources reads sources, which the cache does not have.
	Sources *Sources

	// Settings are what the administrator has decided for all Functions, and Classes what for
	// some.
	Settings settings.Settings
	Classes  *class.Classes

	// Accounts knows as which ServiceAccounts functions may run.
	Accounts account.Accounts

	// References has the hashes of what the environments of functions come from.
	References *references.References

	// Orders have what the build service says of the sources of Functions.
	Orders *build.Orders
}

// Look takes a Snapshot of a Function. It loads the source into the Function where that has
// not been validated yet.
func (o *Observer) Look(ctx context.Context, fn *v1beta1.Function) (*Snapshot, error) {
	s := &Snapshot{
		Time: time.Now(), Source: &corev1.ConfigMap{}, Deployment: &appsv1.Deployment{}, Service: &corev1.Service{},
		Budget: &policyv1.PodDisruptionBudget{}, NetworkPolicy: &networkingv1.NetworkPolicy{}, Autoscaler: &autoscalingv2.HorizontalPodAutoscaler{},
		Answers: o.Orders.Answers(client.ObjectKeyFromObject(fn)), RevisionsInUse: map[string]bool{},
	}
	var replicaSets appsv1.ReplicaSetList
	var pods corev1.PodList
	var services corev1.ServiceList
	var sources corev1.ConfigMapList
	functionClass, wrongClass, err := o.Classes.Of(ctx, fn)
	if err != nil {
		err = fmt.Errorf("looking for the FunctionClass: %w", err)
	}
	wrongAccount, accountErr := o.Accounts.Check(ctx, fn)
	if err = errors.Join(err, accountErr); err != nil && fn.Status.ObservedGeneration == fn.Generation {
		return nil, err // the status goes on saying what is true of this spec
	}
	s.Settings = o.Settings.Of(functionClass)
	s.Verdict, s.CheckErr = o.Sources.check(ctx, fn, s.Settings)
	s.CheckErr = errors.Join(err, s.CheckErr)
	for _, wrong := range []*field.Error{wrongClass, wrongAccount} {
		if wrong != nil {
			s.Verdict.Spec = append(s.Verdict.Spec, wrong)
		}
	}
	err = errors.Join(
		o.get(ctx, fn, desired.ConfigMapName(fn, desired.LatestRevision(fn)), s.Source), o.get(ctx, fn, fn.Name, s.Deployment),
		o.get(ctx, fn, fn.ServiceName(), s.Service), o.get(ctx, fn, fn.Name, s.Budget), o.get(ctx, fn, fn.Name, s.NetworkPolicy),
		o.get(ctx, fn, fn.Name, s.Autoscaler),
		o.list(ctx, fn, &replicaSets), o.list(ctx, fn, &pods), o.list(ctx, fn, &services), o.list(ctx, fn, &sources),
		o.foreignPolicies(ctx, fn, s))
	if err != nil {
		return nil, err
	}
	s.Values, s.ValuesErr = o.References.Of(ctx, fn)
	s.Services, s.Sources = owned(services.Items, fn.UID), owned(sources.Items, fn.UID)
	s.running(replicaSets.Items, pods.Items)
	if !metav1.IsControlledBy(s.Deployment, fn) {
		return s, nil
	}
	s.ReplicaSets = owned(replicaSets.Items, s.Deployment.UID)
	for _, set := range s.ReplicaSets {
		s.Pods = append(s.Pods, owned(pods.Items, set.UID)...)
	}
	if s.OwnedFields, err = appsv1ac.ExtractDeployment(s.Deployment, desired.FieldOwner); err != nil {
		return nil, fmt.Errorf("reading the managed fields of Deployment %q: %w", fn.Name, err)
	}
	s.AwaitsClass = s.Deployment.Labels[desired.ClassLabel] != desired.ClassHash(s.Settings.Class) && !o.Classes.Admits(fn, functionClass)
	return s, nil
}

// running collects the revisions of all pods, and of the ReplicaSets that have or want pods: the
// last pod of a revision may just be moving to another node.
func (s *Snapshot) running(sets []appsv1.ReplicaSet, pods []corev1.Pod) {
	for _, set := range sets {
		if set.Status.Replicas > 0 || set.Spec.Replicas == nil || *set.Spec.Replicas > 0 {
			s.RevisionsInUse[desired.RevisionOf(&set)] = true
		}
	}
	for _, pod := range pods {
		s.RevisionsInUse[desired.RevisionOf(&pod)] = true
	}
}

// foreignPolicies lists the NetworkPolicies that belong to no Function, if the settings give
// functions NetworkPolicies.
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

// get reads an object from the cache, which waits for the operator's last write of it. An
// object that does not exist stays empty.
func (o *Observer) get(ctx context.Context, fn *v1beta1.Function, name string, into client.Object) error {
	if err := o.Client.Get(ctx, client.ObjectKey{Namespace: fn.Namespace, Name: name}, into); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading %T: %w", into, err)
	}
	return nil
}

// list reads the objects with the Function's label from the cache. Whose they are is decided
// by their owner references, because anybody can set a label. It does not wait for the last write of
// the operator, which may be about any other Function, and may hang.
func (o *Observer) list(ctx context.Context, fn *v1beta1.Function, into client.ObjectList) error {
	if err := o.Client.List(ctx, into, client.InNamespace(fn.Namespace), client.MatchingFields{byFunction: fn.Name}, client.DisableReadYourWritesConsistency); err != nil {
		return fmt.Errorf("listing %T: %w", into, err)
	}
	return nil
}

// owned returns the objects whose controller has the given UID.
func owned[T any, P interface {
	*T
	metav1.Object
}](objects []T, controller types.UID) []T {
	return slices.DeleteFunc(slices.Clone(objects), func(obj T) bool {
		ref := metav1.GetControllerOfNoCopy(P(&obj))
		return ref == nil || ref.UID != controller
	})
}

// Revision returns the Function with the summary of the source of one of its revisions; nil
// when no ConfigMap has that source, or the revision is empty.
func (s *Snapshot) Revision(fn *v1beta1.Function, revision string) *v1beta1.Function {
	if revision == desired.LatestRevision(fn) {
		return fn
	}
	for _, source := range s.Sources {
		summary, ok := summaryIn(&source)
		former := fn.DeepCopy()
		former.Spec.Function, former.Spec.Summary = "", &summary
		// Somebody else may have written the content under this name.
		if ok && source.Name == desired.ConfigMapName(fn, revision) && desired.LatestRevision(former) == revision {
			return former
		}
	}
	return nil
}

// SourceOf returns the ConfigMap of a Function's source; without a UID when there is none.
func (s *Snapshot) SourceOf(fn *v1beta1.Function) *corev1.ConfigMap {
	name := desired.ConfigMapName(fn, desired.LatestRevision(fn))
	if s.Source.Name == name {
		return s.Source
	}
	for _, source := range s.Sources {
		if source.Name == name {
			return &source
		}
	}
	return &corev1.ConfigMap{}
}

// PolicySelects tells whether somebody else's NetworkPolicy selects pods with labels.
func (s *Snapshot) PolicySelects(pods map[string]string) bool {
	return slices.ContainsFunc(s.ForeignPolicies, func(policy networkingv1.NetworkPolicy) bool {
		selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
		return err == nil && selector.Matches(labels.Set(pods))
	})
}

// OfAFunction tells whether the controller of an object is some Function.
func OfAFunction(object metav1.Object) bool {
	ref := metav1.GetControllerOfNoCopy(object)
	return ref != nil && ref.Kind == "Function" && ref.APIVersion == v1beta1.GroupVersion.String()
}
