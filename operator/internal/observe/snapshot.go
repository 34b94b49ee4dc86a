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
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/buildclient"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/references"
	"goless.io/operator/internal/settings"
	"goless.io/operator/internal/validation"
)

// Snapshot is the state of a Function's objects in the cluster at one time.
type Snapshot struct {
	// Time is the time of the Snapshot.
	Time time.Time

	// Settings are the settings of the Function: those of its class, and those of the cluster.
	Settings settings.Settings

	// AwaitsClass reports whether the Deployment does not match its current class and the staged
	// rollout of the class has not reached it.
	AwaitsClass bool

	// Verdict is the result of validating the spec and the source. CheckErr is the reason why it is
	// unknown: the source, the class or the permissions of the ServiceAccount cannot be read.
	Verdict  validation.Result
	CheckErr error

	// The objects with the names that the Function needs, regardless of their owner. An object that
	// does not exist has no UID.
	Source        *corev1.ConfigMap
	Deployment    *appsv1.Deployment
	Service       *corev1.Service
	Budget        *policyv1.PodDisruptionBudget
	NetworkPolicy *networkingv1.NetworkPolicy
	Autoscaler    *autoscalingv2.HorizontalPodAutoscaler

	// OwnedFields are the fields of the Function's own Deployment that the operator has applied;
	// nil if there is no such Deployment. A plan compares them with the desired fields and does not
	// change them.
	OwnedFields *appsv1ac.DeploymentApplyConfiguration

	// RecordedTemplate is the pod template in the ControllerRevision of the Deployment, if other
	// clients have changed fields of the Deployment's template. It is nil if they have not, or if
	// there is no such ControllerRevision. See Applied.
	RecordedTemplate *corev1ac.PodTemplateSpecApplyConfiguration

	// PreviousTemplate is the pod template of the version to restore if the version in the Deployment
	// fails its verification; nil if no verification is in progress, or if there is no
	// ControllerRevision of that version.
	PreviousTemplate *corev1ac.PodTemplateSpecApplyConfiguration

	// Services are all Services that belong to the Function, and Sources all its ConfigMaps with
	// sources. Both include those of former specs.
	Services []corev1.Service
	Sources  []corev1.ConfigMap

	// Records are the ControllerRevisions of the Function's versions, without their data, the newest
	// first.
	Records []appsv1.ControllerRevision

	// Orphans are objects of a former Function of this name that have lost their owner.
	Orphans []client.Object

	// ReplicaSets belong to the Function's Deployment, and Pods belong to them.
	ReplicaSets []appsv1.ReplicaSet
	Pods        []corev1.Pod

	// TestRuns are the Jobs of the Function that run tests. TestPolicy is the NetworkPolicy of their
	// pods; it has no UID if it does not exist.
	TestRuns   []TestRun
	TestPolicy *networkingv1.NetworkPolicy

	// RevisionsInUse are the source revisions that pods run or may start from. Pods count even if they
	// do not belong to the Function, because orphaned pods keep running.
	RevisionsInUse map[string]bool

	// ForeignPolicies are the NetworkPolicies of the namespace that do not belong to a Function.
	ForeignPolicies []networkingv1.NetworkPolicy

	// ForeignAutoscalers are the HorizontalPodAutoscalers that scale the Deployment and do not
	// belong to a Function.
	ForeignAutoscalers []autoscalingv2.HorizontalPodAutoscaler

	// Values describe what the environment and the files of the function refer to in ConfigMaps and
	// Secrets. ValuesErr is the reason why that is unknown.
	Values    references.Values
	ValuesErr error

	// Activator is the state of the activator for the Function.
	Activator Activator

	// Answers are the answers of the build service to the orders, by desired.OrderName.
	Answers map[string]buildclient.Answer
}

// running collects the source revisions of all pods, and of the ReplicaSets that have or want pods:
// the last pod of a ReplicaSet may be moving to another node.
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

// Revision returns fn with the source of a source revision: fn itself for the latest one, otherwise
// a copy with the summary of that source. It returns nil if no ConfigMap contains that source, or
// if the source revision is empty.
func (s *Snapshot) Revision(fn *v1beta1.Function, revision string) *v1beta1.Function {
	if revision == desired.LatestRevision(fn) {
		return fn
	}
	for _, source := range s.Sources {
		summary, ok := summaryIn(&source)
		former := fn.DeepCopy()
		former.Spec.Function, former.Spec.Summary = "", &summary
		// Another client may have written other content under this name.
		if ok && source.Name == desired.ConfigMapName(fn, revision) && desired.LatestRevision(former) == revision {
			return former
		}
	}
	return nil
}

// SourceOf returns the ConfigMap of a Function's source. It has no UID if it does not exist.
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

// Applied returns what the operator has applied to the Function's own Deployment: OwnedFields, with
// RecordedTemplate if other clients have changed the template. It returns nil if there is no
// Deployment.
func (s *Snapshot) Applied() *appsv1ac.DeploymentApplyConfiguration {
	if s.RecordedTemplate == nil {
		return s.OwnedFields
	}
	applied, spec := *s.OwnedFields, appsv1ac.DeploymentSpec()
	if applied.Spec != nil {
		*spec = *applied.Spec
	}
	applied.Spec = spec.WithTemplate(s.RecordedTemplate)
	return &applied
}

// ExtractDeployment is like ExtractDeployment of client-go, but returns OwnedFields for the
// Deployment of the Snapshot: the function of client-go takes a third of the time of a reconcile.
func (s *Snapshot) ExtractDeployment(d *appsv1.Deployment, owner string) (*appsv1ac.DeploymentApplyConfiguration, error) {
	if d == s.Deployment && s.OwnedFields != nil && owner == desired.FieldOwner {
		return s.OwnedFields, nil
	}
	return appsv1ac.ExtractDeployment(d, owner)
}

// PolicySelects reports whether a NetworkPolicy in ForeignPolicies selects pods with the given
// labels.
func (s *Snapshot) PolicySelects(pods map[string]string) bool {
	return slices.ContainsFunc(s.ForeignPolicies, func(policy networkingv1.NetworkPolicy) bool {
		selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
		return err == nil && selector.Matches(labels.Set(pods))
	})
}

// OfAFunction reports whether the controller of an object is a Function.
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
