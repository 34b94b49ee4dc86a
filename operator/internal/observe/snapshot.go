package observe

import (
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
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/buildclient"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/references"
	"goless.io/operator/internal/settings"
	"goless.io/operator/internal/validation"
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
	Verdict  validation.Result
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
	// written; nil when there is no such Deployment. A plan does not change them: they are
	// compared with what it wants.
	OwnedFields *appsv1ac.DeploymentApplyConfiguration

	// Services and Sources are all that belong to the Function, those of former specs
	// as well.
	Services []corev1.Service
	Sources  []corev1.ConfigMap

	// Orphans are objects of a former Function of the name that have lost their owner.
	Orphans []client.Object

	// ReplicaSets belong to the Function's Deployment, and Pods to them.
	ReplicaSets []appsv1.ReplicaSet
	Pods        []corev1.Pod

	// RevisionsInUse are the revisions that pods run or may start again from. Pods count even if
	// they do not belong to the Function, because orphaned ones go on running.
	RevisionsInUse map[string]bool

	// ForeignPolicies are the NetworkPolicies of the namespace that belong to no Function.
	ForeignPolicies []networkingv1.NetworkPolicy

	// ForeignAutoscalers are the HorizontalPodAutoscalers that scale the Deployment and belong to no
	// Function.
	ForeignAutoscalers []autoscalingv2.HorizontalPodAutoscaler

	// Values are what the environment and the files of the function have from ConfigMaps and
	// Secrets. ValuesErr is why that is not known.
	Values    references.Values
	ValuesErr error

	// Activator is what the activator does for the Function.
	Activator Activator

	// Answers are what the build service says of the sources that were ordered, by
	// their SHA-256.
	Answers map[string]buildclient.Answer
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

// ExtractDeployment is that of client-go, which takes a third of the time of a reconcile. It does not
// read again the fields of the Deployment that was seen.
func (s *Snapshot) ExtractDeployment(d *appsv1.Deployment, owner string) (*appsv1ac.DeploymentApplyConfiguration, error) {
	if d == s.Deployment && s.OwnedFields != nil && owner == desired.FieldOwner {
		return s.OwnedFields, nil
	}
	return appsv1ac.ExtractDeployment(d, owner)
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
