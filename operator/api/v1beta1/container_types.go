package v1beta1

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// EnvVar is one environment variable of the function. The fields are those of a
// container that stay within the Function's namespace.
//
// +kubebuilder:validation:XValidation:rule="!has(self.valueFrom) || !has(self.value) || self.value.size() == 0",message="give value or valueFrom, not both"
type EnvVar struct {
	// name of the variable. SERVER_PORT, ADMIN_PORT, SERVER_LISTENER,
	// ADMIN_LISTENER, REQUEST_TIMEOUT, REQUEST_CONCURRENCY and names that begin
	// with FUNCTION_ are set by Goless.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z][-._a-zA-Z0-9]*$`
	// +kubebuilder:validation:XValidation:rule="!(self in ['SERVER_PORT', 'ADMIN_PORT', 'SERVER_LISTENER', 'ADMIN_LISTENER', 'REQUEST_TIMEOUT', 'REQUEST_CONCURRENCY']) && !self.startsWith('FUNCTION_')",message="this variable is set by Goless: use spec.serverPort, spec.timeout or spec.concurrency, or choose another name"
	Name string `json:"name"`

	// value of the variable. $(NAME) stands for the value of a variable before
	// it, $$(NAME) for these very characters.
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	Value string `json:"value,omitempty"`

	// valueFrom takes the value from elsewhere.
	// +optional
	ValueFrom *EnvVarSource `json:"valueFrom,omitempty"`
}

// EnvVarSource is where the value of a variable comes from.
//
// +kubebuilder:validation:XValidation:rule="[has(self.configMapKeyRef), has(self.secretKeyRef), has(self.fieldRef)].filter(given, given).size() == 1",message="give exactly one of configMapKeyRef, secretKeyRef and fieldRef"
type EnvVarSource struct {
	// configMapKeyRef is a key of a ConfigMap in the Function's namespace. A
	// change of its value rolls the function out anew.
	// +optional
	ConfigMapKeyRef *KeyRef `json:"configMapKeyRef,omitempty"`

	// secretKeyRef is a key of a Secret in the Function's namespace. Pods that
	// start later see a change of it, those that run do not: kubectl rollout
	// restart deployment/NAME exchanges them, with the name of the Function.
	// +optional
	SecretKeyRef *KeyRef `json:"secretKeyRef,omitempty"`

	// fieldRef is a field of the pod.
	// +optional
	FieldRef *FieldRef `json:"fieldRef,omitempty"`
}

// KeyRef names a key of a ConfigMap or of a Secret.
type KeyRef struct {
	// name of the ConfigMap or Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`

	// key of the value.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^\.?[-_a-zA-Z0-9][-._a-zA-Z0-9]*$`
	Key string `json:"key"`

	// optional lets the function start without the key; false by default.
	// +optional
	Optional *bool `json:"optional,omitempty"`
}

// FieldRef names a field of the pod that the function runs in.
type FieldRef struct {
	// fieldPath is the path of the field.
	// +required
	// +kubebuilder:validation:Enum=metadata.name;metadata.namespace;metadata.uid;spec.nodeName;status.hostIP;status.podIP
	FieldPath string `json:"fieldPath"`
}

// EnvFromSource makes environment variables of all keys of a ConfigMap or of a
// Secret.
//
// +kubebuilder:validation:XValidation:rule="has(self.configMapRef) != has(self.secretRef)",message="give exactly one of configMapRef and secretRef"
type EnvFromSource struct {
	// prefix goes before every key to make the name of the variable.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([-._a-zA-Z][-._a-zA-Z0-9]*)?$`
	Prefix string `json:"prefix,omitempty"`

	// configMapRef is a ConfigMap in the Function's namespace. A change of it
	// rolls the function out anew.
	// +optional
	ConfigMapRef *ObjectRef `json:"configMapRef,omitempty"`

	// secretRef is a Secret in the Function's namespace. Pods that start later
	// see a change of it, those that run do not: kubectl rollout restart
	// deployment/NAME exchanges them, with the name of the Function.
	// +optional
	SecretRef *ObjectRef `json:"secretRef,omitempty"`
}

// ObjectRef names a ConfigMap or a Secret.
type ObjectRef struct {
	// name of the ConfigMap or Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`

	// optional lets the function start without the object; false by default.
	// +optional
	Optional *bool `json:"optional,omitempty"`
}

// Resources are what a container reserves and what it may use: of cpu, memory
// and ephemeral-storage. A limit that is lower than the default request lowers
// the request, and a request that is higher than the default limit raises the
// limit.
type Resources struct {
	// requests is what a node must have left for the container.
	// +optional
	Requests Amounts `json:"requests,omitzero"`

	// limits is what the container may use; more than 0, which would be no limit.
	// +optional
	// +kubebuilder:validation:XValidation:rule="(!has(self.cpu) || string(self.cpu).matches('[1-9]')) && (!has(self.memory) || string(self.memory).matches('[1-9]')) && (!has(self.ephemeral__dash__storage) || string(self.ephemeral__dash__storage).matches('[1-9]'))",message="a limit must be more than 0"
	Limits Amounts `json:"limits,omitzero"`
}

// Validate rejects requests that are more than the limits. path is that of r.
func (r *Resources) Validate(path *field.Path) (errs field.ErrorList) {
	if r == nil {
		return nil
	}
	requests, limits := r.Requests.List(), r.Limits.List()
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		request := requests[name]
		if limit, limited := limits[name]; limited && request.Cmp(limit) > 0 {
			errs = append(errs, field.Invalid(path.Child("requests", string(name)), request.String(), "is more than the limit of "+limit.String()))
		}
	}
	return errs
}

// Amounts are amounts of what a container uses. Their patterns let through only
// what every reader of quantities understands: one object that cannot be decoded
// would hide all of them.
type Amounts struct {
	// cpu in cores, such as 2, or 500m for half a core.
	// +optional
	// +kubebuilder:validation:XValidation:rule="string(self).matches('^[0-9]{1,19}([.][0-9]{1,9})?([numkMGTPE]|[KMGTPE]i)?$')",message="must be a number with an optional unit, such as 2 or 500m"
	CPU *resource.Quantity `json:"cpu,omitempty"`

	// memory in bytes, such as 256Mi or 1.5Gi.
	// +optional
	// +kubebuilder:validation:XValidation:rule="string(self).matches('^[0-9]{1,19}([.][0-9]{1,9})?([numkMGTPE]|[KMGTPE]i)?$')",message="must be a number with an optional unit, such as 256Mi or 1.5Gi"
	Memory *resource.Quantity `json:"memory,omitempty"`

	// ephemeral-storage in bytes, such as 1Gi: logs, and files of the program.
	// +optional
	// +kubebuilder:validation:XValidation:rule="string(self).matches('^[0-9]{1,19}([.][0-9]{1,9})?([numkMGTPE]|[KMGTPE]i)?$')",message="must be a number with an optional unit, such as 256Mi or 1.5Gi"
	EphemeralStorage *resource.Quantity `json:"ephemeral-storage,omitempty"`
}

// List is a as Kubernetes has it.
func (a Amounts) List() corev1.ResourceList {
	list := corev1.ResourceList{}
	for name, amount := range map[corev1.ResourceName]*resource.Quantity{
		corev1.ResourceCPU: a.CPU, corev1.ResourceMemory: a.Memory, corev1.ResourceEphemeralStorage: a.EphemeralStorage,
	} {
		if amount != nil {
			list[name] = amount.DeepCopy()
		}
	}
	return list
}

// BuildStrategy is where the source of a function is compiled.
//
// +kubebuilder:validation:Enum=InPod;Shared
type BuildStrategy string

const (
	// BuildInPod compiles in each pod, before the function starts there.
	BuildInPod BuildStrategy = "InPod"

	// BuildShared compiles once, in the build service.
	BuildShared BuildStrategy = "Shared"
)

// BuildSpec is how the source of a function is compiled.
type BuildSpec struct {
	// strategy is where the source is compiled. Shared compiles it once, in the
	// build service of the cluster, before any pod is made: pods start sooner, and
	// a source that does not compile makes none. InPod compiles it in each pod,
	// before the function starts there, and needs no service beside the pods. The
	// cluster's configuration of Goless has the default, which is Shared. A source
	// with a go.mod is compiled InPod where modules need certificates or
	// credentials of its namespace. The label goless.io/strategy tells it of pods.
	// +optional
	Strategy BuildStrategy `json:"strategy,omitempty"`

	// resources of the container that compiles. By default it requests 50m of
	// cpu, 128Mi of memory and 64Mi of ephemeral-storage and is limited to 2, 768Mi
	// and 1Gi. To a Shared build only the limit of memory matters.
	// +optional
	Resources *Resources `json:"resources,omitempty"`

	// timeout is how long the compiler may take; one minute by default, and five
	// where the builder image has no build cache.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(([0-9]{1,9}([.][0-9]{1,9})?(ns|us|ms|s)|[0-9]{1,5}([.][0-9]{1,9})?[mh])+)$')",message="timeout must be a time such as 30s or 1m30s"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^(([0-9]{1,9}([.][0-9]{1,9})?(ns|us|ms|s)|[0-9]{1,5}([.][0-9]{1,9})?[mh])+)$') || duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="timeout must be from 1s to 1h"
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}
