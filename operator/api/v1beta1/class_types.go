package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultClassAnnotation marks a FunctionClass as the default for Functions without spec.className.
// Its value is true.
const DefaultClassAnnotation = "functionclass.goless.io/is-default-class"

// ConditionDefaultConflict is True for a FunctionClass while another class is also a default class
// of some of its namespaces. The condition is absent otherwise.
const ConditionDefaultConflict = "DefaultConflict"

// ReasonSeveralDefaults is the reason of ConditionDefaultConflict.
const ReasonSeveralDefaults = "SeveralDefaults"

// ReasonClassValid is the reason of the condition Ready while it is True for a FunctionClass. While
// it is False, the reason is ReasonInvalidSpec: the namespaceSelector is invalid.
const ReasonClassValid = "Valid"

// ConditionRolledOut reports the staged rollout of a FunctionClass. Ready does not depend on it: Flux
// waits until the FunctionClasses of a Kustomization are Ready before it applies the Functions, so it
// could never apply the fix of a function that delays the rollout.
const ConditionRolledOut = "RolledOut"

// Reasons of ConditionRolledOut, in addition to ReasonInvalidSpec.
const (
	// ReasonClassRolledOut means that all functions of the class use its current spec, and that the
	// rollouts that applied it are complete.
	ReasonClassRolledOut = "RolledOut"

	// ReasonClassRollingOut means that some functions of the class do not use its current spec yet,
	// or that their rollouts are in progress.
	ReasonClassRollingOut = "RollingOut"

	// ReasonClassRolloutFailed means that some functions could not be updated, or that their rollouts
	// are paused or exceeded the progress deadline. The message names one of the functions. Its status
	// contains the cause, which may be unrelated to the class.
	ReasonClassRolloutFailed = "RolloutFailed"
)

// FunctionClass contains what the cluster administrator configures for the pods of functions:
// nodes, user, registries and resources. A Function selects a class with spec.className.
//
// A class with the annotation functionclass.goless.io/is-default-class: "true" is a default class.
// A Function without className uses the default class that selects its namespace. If several do, it
// uses the newest one. In that case, "kubectl apply" of such a class warns, and the condition
// DefaultConflict of each of these classes contains the names of the classes, up to three of the
// namespaces, and the number of the others.
//
// When a class changes, Goless updates its functions step by step: a tenth of them at the same time
// (rounded down; minimum 1, maximum 20). A function whose Deployment cannot be updated, for example
// because its spec is invalid, delays the others for 10 minutes. A function whose pods do not
// become ready delays them for its progressDeadlineSeconds. The condition RolledOut of the class
// reports both.
//
// The cluster settings, such as the setting "podUser", are in the ConfigMap goless-operator in the
// namespace of the operator; docs/settings.md describes them.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,categories=goless
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="RolledOut",type=string,JSONPath=`.status.conditions[?(@.type=="RolledOut")].status`
// +kubebuilder:printcolumn:name="Functions",type=integer,JSONPath=`.status.functions`
// +kubebuilder:printcolumn:name="Updated",type=integer,JSONPath=`.status.updatedFunctions`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type FunctionClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is applied to all functions of the class. build, resources, maxResources and podUser
	// default to the cluster settings; the other fields have their own defaults. A change, except
	// of namespaceSelector, updates the functions of the class step by step, see FunctionClass.
	// +optional
	Spec FunctionClassSpec `json:"spec,omitzero"`

	// status reports whether functions can use the class, and the progress of its rollout.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1,"functions":0,"updatedFunctions":0}
	Status FunctionClassStatus `json:"status,omitzero"`
}

// FunctionClassSpec is the desired state of a FunctionClass.
type FunctionClassSpec struct {
	// namespaceSelector selects the namespaces whose functions may use the class, by their labels.
	// Default: all namespaces.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// imagePullSecrets are the Secrets with credentials for image registries, in the namespace of
	// each Function. Maximum: 16.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// nodeSelector contains the labels that a node must have to run the pods. Default: none.
	// Maximum: 32.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// tolerations are the node taints that the pods tolerate. Maximum: 32. A toleration of the
	// taint node.kubernetes.io/not-ready or node.kubernetes.io/unreachable with the effect
	// NoExecute replaces the setting "lostNodeTimeout" for that taint.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// affinity contains the affinity rules of the pods, for nodes and for other pods. Default: the
	// replicas of a function prefer different zones, unless topologySpreadConstraints is set.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// topologySpreadConstraints configure how the replicas of a function are spread. Default: over
	// nodes, if possible, and over zones as described in affinity. Maximum: 8. A constraint without
	// a labelSelector applies to the pods of one version of the function.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`

	// priorityClassName is the PriorityClass of the pods. The classes that begin with system- are
	// not allowed. Default: none.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('system-')",message="system priority classes are not allowed for functions"
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// runtimeClassName is the RuntimeClass of the pods. Default: none.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	RuntimeClassName string `json:"runtimeClassName,omitempty"`

	// podUser sets the user and the groups of the pods. Those that are not set are left to the
	// cluster: OpenShift assigns them, and elsewhere the user of the image applies (65532). {} sets
	// none of them, as restricted-v2 of OpenShift requires. Root is not allowed. Default: the
	// setting "podUser".
	// +optional
	PodUser *PodUser `json:"podUser,omitempty"`

	// labels are added to the pods. List the key of each, or its prefix, in the annotation
	// fence.goless.io/labels of the ValidatingAdmissionPolicyBinding goless-operator-deployments,
	// which belongs to the access policies of Goless (see docs/security.md). Otherwise the API
	// server rejects the Deployments. The prefixes goless.io/ and pod.goless.io/ are not allowed.
	// Maximum: 32.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('goless.io/') && !k.startsWith('pod.goless.io/'))",message="the prefixes goless.io/ and pod.goless.io/ are reserved"
	Labels map[string]string `json:"labels,omitempty"`

	// annotations are added to the pods. List the key of each, or its prefix, in the annotation
	// fence.goless.io/annotations of the ValidatingAdmissionPolicyBinding
	// goless-operator-deployments, which belongs to the access policies of Goless (see
	// docs/security.md). Otherwise the API server rejects the Deployments. The prefixes goless.io/
	// and pod.goless.io/ are not allowed. Maximum: 32.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('goless.io/') && !k.startsWith('pod.goless.io/'))",message="the prefixes goless.io/ and pod.goless.io/ are reserved"
	Annotations map[string]string `json:"annotations,omitempty"`

	// resources are the defaults of spec.resources of a Function. An amount that is not set
	// defaults to the cluster settings.
	// +optional
	Resources Resources `json:"resources,omitzero"`

	// maxResources limits spec.resources of a Function. An amount that is not set defaults to the
	// cluster settings.
	// +optional
	MaxResources Amounts `json:"maxResources,omitzero"`

	// build configures how the sources are compiled.
	// +optional
	Build ClassBuild `json:"build,omitzero"`
}

// PodUser contains the user and the groups of a pod. Those that are not set are left to the
// cluster. Root is not allowed.
type PodUser struct {
	// runAsUser is the user ID. Range: 1 to 2147483647.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	RunAsUser *int64 `json:"runAsUser,omitempty"`

	// runAsGroup is the primary group ID. Range: 1 to 2147483647.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	RunAsGroup *int64 `json:"runAsGroup,omitempty"`

	// fsGroup is the group ID that owns the volumes. Range: 1 to 2147483647.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	FSGroup *int64 `json:"fsGroup,omitempty"`
}

// ClassBuild configures how the sources of the functions of a class are compiled.
type ClassBuild struct {
	// strategy is the default of spec.build.strategy of a Function. Default: the setting
	// "build.strategy".
	// +optional
	Strategy BuildStrategy `json:"strategy,omitempty"`

	// resources are the defaults of spec.build.resources of a Function. An amount that is not set
	// defaults to the cluster settings.
	// +optional
	Resources Resources `json:"resources,omitzero"`

	// maxResources limits spec.build.resources of a Function. An amount that is not set defaults to
	// the cluster settings.
	// +optional
	MaxResources Amounts `json:"maxResources,omitzero"`

	// modules configures where the modules of a go.mod come from. It replaces the setting
	// "build.modules" completely. The values are visible to anyone who can view pods: do not put
	// passwords into them.
	// +optional
	Modules *Modules `json:"modules,omitempty"`
}

// FunctionClassStatus reports whether functions can use a class, and the progress of its rollout.
type FunctionClassStatus struct {
	// observedGeneration is the generation of the spec that this status describes. It is -1 until
	// the class has been processed.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// functions is the number of functions that use the class and have a Deployment, except those
	// that wait for their first build.
	// +optional
	Functions int32 `json:"functions"`

	// updatedFunctions is the number of functions whose Deployment uses the current spec of the
	// class. Their rollouts may still be in progress.
	// +optional
	UpdatedFunctions int32 `json:"updatedFunctions"`

	// conditions contain:
	//   - Ready: False if the namespaceSelector is invalid, so that no function uses the class;
	//     True otherwise. It does not report whether the API server accepts pods of the class. When
	//     the class is applied, the admission webhook of Goless creates a sample Deployment with it
	//     in a dry run and rejects the class if its pod fields are invalid. This does not check
	//     whether the access policy allows the labels and annotations.
	//   - Stalled: True while the namespaceSelector is invalid; absent otherwise.
	//   - RolledOut: True when all functions with a Deployment, except those that wait for their
	//     first build, use the current spec of the class, and the rollouts that applied it are
	//     complete. False while the namespaceSelector is invalid. Later rollouts for other reasons
	//     do not change it.
	//   - DefaultConflict: True while another class is also a default class of some of the
	//     namespaces; absent otherwise.
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

	// items is the list of FunctionClasses.
	Items []FunctionClass `json:"items"`
}

// IsDefault reports whether the class has the annotation that marks a default class.
func (c *FunctionClass) IsDefault() bool { return c.Annotations[DefaultClassAnnotation] == "true" }
