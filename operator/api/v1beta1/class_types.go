package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultClassAnnotation is, with the value true, on the FunctionClass of Functions that name
// none.
const DefaultClassAnnotation = "functionclass.goless.io/is-default-class"

// ConditionDefaultConflict is the type of the condition of a FunctionClass that is True while some
// namespaces have another default class too. Otherwise there is none.
const ConditionDefaultConflict = "DefaultConflict"

// ReasonSeveralDefaults is the reason of ConditionDefaultConflict.
const ReasonSeveralDefaults = "SeveralDefaults"

// Reasons of the condition Ready of a FunctionClass.
const (
	// ReasonRolledOut is the reason of True: all functions of the class run as it says.
	ReasonRolledOut = "RolledOut"

	// ReasonClassRollingOut is the reason of False: some of them do not yet.
	ReasonClassRollingOut = "RollingOut"

	// ReasonClassRolloutFailed is the reason of False where the API server refuses what the class
	// makes of some of them, or their rollouts were given up.
	ReasonClassRolloutFailed = "RolloutFailed"
)

// FunctionClass is what the administrator of a cluster decides about the pods of functions:
// where they run, as whom, from which registries, and with how much. A Function names its class
// in spec.className; otherwise it has the one with the annotation
// functionclass.goless.io/is-default-class: "true", where there is one for its namespace, and
// the newest of several. Where there are several, kubectl apply warns, and the condition
// DefaultConflict of each names the others and the namespaces.
//
// A change of a class rolls out the functions that have it: a tenth of them at the same time, at
// least one and at most 20. One that cannot be changed keeps the others back for ten minutes, one
// that does not get ready for its progressDeadlineSeconds; the condition Ready of the class says so.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,categories=goless
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Functions",type=integer,JSONPath=`.status.functions`
// +kubebuilder:printcolumn:name="Updated",type=integer,JSONPath=`.status.updatedFunctions`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type FunctionClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what functions of the class have. What it leaves out is as the configuration
	// of the operator says.
	// +optional
	Spec FunctionClassSpec `json:"spec,omitzero"`

	// status is how far the class has reached its functions.
	// +optional
	Status FunctionClassStatus `json:"status,omitzero"`
}

// FunctionClassSpec is what functions of a class have.
type FunctionClassSpec struct {
	// namespaceSelector selects, by their labels, the namespaces whose functions may have
	// the class; all of them when left out.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// imagePullSecrets are Secrets of the function's namespace with the credentials of
	// registries.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// nodeSelector are the labels of the nodes that pods may run on.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// tolerations are the taints of nodes that pods may run on all the same.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// affinity is which nodes and which other pods the pods are attracted to.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// topologySpreadConstraints say how the replicas of a function are spread; over nodes and
	// zones, if possible, when left out. One without a labelSelector is about the pods of
	// one version of the function.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`

	// priorityClassName is the PriorityClass of the pods. Those of the system are not for
	// functions.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('system-')",message="the priority classes of the system are not for functions"
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// runtimeClassName is the RuntimeClass of the pods.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	RuntimeClassName string `json:"runtimeClassName,omitempty"`

	// podUser are the user and the groups of the pods. {} leaves them to the cluster, as
	// restricted-v2 of OpenShift wants it.
	// +optional
	PodUser *PodUser `json:"podUser,omitempty"`

	// labels of the pods. 40-fence.yaml has to list them, or their prefix.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('goless.io/') && !k.startsWith('pod.goless.io/'))",message="labels of goless.io are set by Goless"
	Labels map[string]string `json:"labels,omitempty"`

	// annotations of the pods. 40-fence.yaml has to list them, or their prefix.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('goless.io/') && !k.startsWith('pod.goless.io/'))",message="annotations of goless.io are set by Goless"
	Annotations map[string]string `json:"annotations,omitempty"`

	// resources are the defaults for spec.resources of a Function.
	// +optional
	Resources Resources `json:"resources,omitzero"`

	// maxResources are the most that spec.resources of a Function may ask for.
	// +optional
	MaxResources Amounts `json:"maxResources,omitzero"`

	// build is how the sources are compiled.
	// +optional
	Build ClassBuild `json:"build,omitzero"`
}

// PodUser are the ids that pods run with. What is left out is for the cluster to assign. Root is
// never among them.
type PodUser struct {
	// runAsUser is the id of the user.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	RunAsUser *int64 `json:"runAsUser,omitempty"`

	// runAsGroup is the id of the group.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	RunAsGroup *int64 `json:"runAsGroup,omitempty"`

	// fsGroup is the id of the group that owns the volumes.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	FSGroup *int64 `json:"fsGroup,omitempty"`
}

// ClassBuild is how the sources of the functions of a class are compiled.
type ClassBuild struct {
	// strategy is the default for spec.build.strategy of a Function.
	// +optional
	Strategy BuildStrategy `json:"strategy,omitempty"`

	// resources are the defaults for spec.build.resources of a Function.
	// +optional
	Resources Resources `json:"resources,omitzero"`

	// maxResources are the most that spec.build.resources of a Function may ask for.
	// +optional
	MaxResources Amounts `json:"maxResources,omitzero"`

	// modules say where the modules of a go.mod come from, in the place of all that the
	// configuration of the operator says of it.
	// +optional
	Modules *Modules `json:"modules,omitempty"`
}

// FunctionClassStatus is how far a class has reached its functions.
type FunctionClassStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// functions is how many Functions have the class.
	// +optional
	Functions int32 `json:"functions"`

	// updatedFunctions is how many of them run as the class says, or begin to.
	// +optional
	UpdatedFunctions int32 `json:"updatedFunctions"`

	// conditions hold Ready, which is true when all functions of the class run as it says, and
	// DefaultConflict, which is true while some namespaces have another default class too.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// FunctionClassList is a list of FunctionClasses.
//
// +kubebuilder:object:root=true
type FunctionClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the FunctionClasses.
	Items []FunctionClass `json:"items"`
}

// IsDefault tells whether Functions that name no class have this one.
func (c *FunctionClass) IsDefault() bool { return c.Annotations[DefaultClassAnnotation] == "true" }
