package v1beta1

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// EnvVar is an environment variable of the function or of its tests. It supports a subset of the
// sources of a container's environment variable: ConfigMaps and Secrets in the namespace of the
// Function, and fields of the pod.
//
// +kubebuilder:validation:XValidation:rule="!has(self.valueFrom) || !has(self.value) || self.value.size() == 0",message="give value or valueFrom, not both"
type EnvVar struct {
	// name is the name of the variable. SERVER_PORT, ADMIN_PORT, SERVER_LISTENER, ADMIN_LISTENER,
	// REQUEST_TIMEOUT, REQUEST_CONCURRENCY and all names that begin with FUNCTION_ are reserved for
	// Goless and rejected.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z][-._a-zA-Z0-9]*$`
	// +kubebuilder:validation:XValidation:rule="!(self in ['SERVER_PORT', 'ADMIN_PORT', 'SERVER_LISTENER', 'ADMIN_LISTENER', 'REQUEST_TIMEOUT', 'REQUEST_CONCURRENCY']) && !self.startsWith('FUNCTION_')",message="this name is reserved: use spec.serverPort, spec.timeout or spec.concurrency, or choose another name"
	Name string `json:"name"`

	// value is the value of the variable. Default: empty. $(NAME) is replaced by the value of a
	// variable defined earlier; $$(NAME) is the literal text $(NAME). Maximum: 32768 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	Value string `json:"value,omitempty"`

	// valueFrom is the source of the value. It cannot be combined with a value.
	// +optional
	ValueFrom *EnvVarSource `json:"valueFrom,omitempty"`
}

// EnvVarSource is the source of the value of a variable. Exactly one field must be set.
//
// +kubebuilder:validation:XValidation:rule="[has(self.configMapKeyRef), has(self.secretKeyRef), has(self.fieldRef)].filter(given, given).size() == 1",message="give exactly one of configMapKeyRef, secretKeyRef and fieldRef"
type EnvVarSource struct {
	// configMapKeyRef selects a key of a ConfigMap in the namespace of the Function. In spec.env, a
	// change of the value triggers a rollout.
	// +optional
	ConfigMapKeyRef *KeyRef `json:"configMapKeyRef,omitempty"`

	// secretKeyRef selects a key of a Secret in the namespace of the Function. In spec.env, a
	// change of the value reaches only new pods; to replace the running pods, run "kubectl rollout
	// restart deployment/NAME" with the name of the Function. If the setting "watchSecrets" is
	// true, the change triggers a rollout instead. In build.testEnv, a change applies to the next
	// run of the tests.
	// +optional
	SecretKeyRef *KeyRef `json:"secretKeyRef,omitempty"`

	// fieldRef selects a field of the pod.
	// +optional
	FieldRef *FieldRef `json:"fieldRef,omitempty"`
}

// KeyRef selects a key of a ConfigMap or a Secret. The object and the key must exist unless
// optional is true.
type KeyRef struct {
	// name is the name of the ConfigMap or Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`

	// key is the key to select.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^\.?[-_a-zA-Z0-9][-._a-zA-Z0-9]*$`
	Key string `json:"key"`

	// optional allows the function to start without the object or the key. Default: false.
	// +optional
	Optional *bool `json:"optional,omitempty"`
}

// FieldRef selects a field of the pod of the function.
type FieldRef struct {
	// fieldPath is the path of the field.
	// +required
	// +kubebuilder:validation:Enum=metadata.name;metadata.namespace;metadata.uid;spec.nodeName;status.hostIP;status.podIP
	FieldPath string `json:"fieldPath"`
}

// EnvFromSource creates environment variables from all keys of a ConfigMap or a Secret. Exactly one
// of configMapRef and secretRef must be set.
//
// +kubebuilder:validation:XValidation:rule="has(self.configMapRef) != has(self.secretRef)",message="give exactly one of configMapRef and secretRef"
type EnvFromSource struct {
	// prefix is prepended to each key to form the name of the variable. Default: empty.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([-._a-zA-Z][-._a-zA-Z0-9]*)?$`
	Prefix string `json:"prefix,omitempty"`

	// configMapRef selects a ConfigMap in the namespace of the Function. A change to the ConfigMap
	// triggers a rollout.
	// +optional
	ConfigMapRef *ObjectRef `json:"configMapRef,omitempty"`

	// secretRef selects a Secret in the namespace of the Function. A change reaches only new pods;
	// to replace the running pods, run "kubectl rollout restart deployment/NAME" with the name of
	// the Function. If the setting "watchSecrets" is true, a change triggers a rollout.
	// +optional
	SecretRef *ObjectRef `json:"secretRef,omitempty"`
}

// ObjectRef selects a ConfigMap or a Secret.
type ObjectRef struct {
	// name is the name of the ConfigMap or Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`

	// optional allows the function to start without the object. Default: false.
	// +optional
	Optional *bool `json:"optional,omitempty"`
}

// Resources are the resource requests and limits of a container: cpu, memory and ephemeral-storage.
// If only a limit is set and it is below the default request, the request is lowered to it. If only
// a request is set and it is above the default limit, the limit is raised to it.
type Resources struct {
	// requests are the resources that the scheduler reserves for the container. They must not
	// exceed limits.
	// +optional
	Requests Amounts `json:"requests,omitzero"`

	// limits are the maximum resources that the container may use. A limit must be greater than 0.
	// +optional
	// +kubebuilder:validation:XValidation:rule="(!has(self.cpu) || string(self.cpu).matches('[1-9]')) && (!has(self.memory) || string(self.memory).matches('[1-9]')) && (!has(self.ephemeral__dash__storage) || string(self.ephemeral__dash__storage).matches('[1-9]'))",message="a limit must be more than 0"
	Limits Amounts `json:"limits,omitzero"`
}

// Validate returns an error for each request that exceeds its limit. path is the path of r.
func (r *Resources) Validate(path *field.Path) (errs field.ErrorList) {
	if r == nil {
		return nil
	}
	requests, limits := r.Requests.List(), r.Limits.List()
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		request := requests[name]
		if limit, limited := limits[name]; limited && request.Cmp(limit) > 0 {
			errs = append(errs, field.Invalid(path.Child("requests", string(name)), request.String(), "exceeds the limit of "+limit.String()))
		}
	}
	return errs
}

// Amounts are quantities of cpu, memory and ephemeral-storage. The patterns accept only quantities
// that every client can decode: a single object that cannot be decoded would break the list of all
// objects.
type Amounts struct {
	// cpu is the amount of cpu in cores, such as 2, or 500m for half a core.
	// +optional
	// +kubebuilder:validation:XValidation:rule="string(self).matches('^[0-9]{1,19}([.][0-9]{1,9})?([numkMGTPE]|[KMGTPE]i)?$')",message="must be a number with an optional unit, such as 2 or 500m"
	CPU *resource.Quantity `json:"cpu,omitempty"`

	// memory is the amount of memory in bytes, such as 256Mi or 1.5Gi.
	// +optional
	// +kubebuilder:validation:XValidation:rule="string(self).matches('^[0-9]{1,19}([.][0-9]{1,9})?([numkMGTPE]|[KMGTPE]i)?$')",message="must be a number with an optional unit, such as 256Mi or 1.5Gi"
	Memory *resource.Quantity `json:"memory,omitempty"`

	// ephemeral-storage is the amount of local storage in bytes, such as 1Gi, for logs and files.
	// +optional
	// +kubebuilder:validation:XValidation:rule="string(self).matches('^[0-9]{1,19}([.][0-9]{1,9})?([numkMGTPE]|[KMGTPE]i)?$')",message="must be a number with an optional unit, such as 256Mi or 1.5Gi"
	EphemeralStorage *resource.Quantity `json:"ephemeral-storage,omitempty"`
}

// List returns the amounts as a ResourceList.
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

// BuildStrategy is the place where a source is compiled.
//
// +kubebuilder:validation:Enum=InPod;Shared
type BuildStrategy string

const (
	// BuildInPod compiles the source in an init container of each pod.
	BuildInPod BuildStrategy = "InPod"

	// BuildShared compiles the source once, in the build service.
	BuildShared BuildStrategy = "Shared"
)

// BuildSpec configures how the source of a function is compiled.
type BuildSpec struct {
	// strategy is the place where the source is compiled:
	//   - Shared compiles it once, in the build service of the cluster. Pods start faster. An update
	//     that does not compile creates no pods. While the first source of a Function compiles, its
	//     pods already start, unless test is set.
	//   - InPod compiles it in an init container of each pod and does not require the build
	//     service.
	//
	// Default: Shared, unless the FunctionClass or the cluster settings change it. If build.modules
	// of the FunctionClass, or else of the settings, has caBundle or netrc, a source with a go.mod
	// is always compiled InPod, because the build service cannot read ConfigMaps and Secrets in the
	// namespace of the Function. The pod label goless.io/strategy contains the strategy that was
	// used.
	// +optional
	Strategy BuildStrategy `json:"strategy,omitempty"`

	// resources are the resource requests and limits of the init container that compiles, and of
	// the pod that runs tests. A Shared build uses only limits.memory, and at most the --max-memory
	// of the build service (default: 768Mi). Defaults, unless the FunctionClass or the cluster
	// settings change them:
	//   - requests: cpu 50m, memory 128Mi, ephemeral-storage 64Mi
	//   - limits: cpu 2, memory 768Mi, ephemeral-storage 1Gi
	//
	// Each amount has a maximum: build.maxResources of the FunctionClass, or else the setting
	// "build.maxResources" (default: 4 cpu, 4Gi of memory and 4Gi of ephemeral-storage). Admission
	// rejects a larger amount. If a stored spec exceeds the maximum, for example because the
	// maximum was lowered later, the operator uses the maximum; the function serves, but Ready is
	// False with reason InvalidSpec.
	// +optional
	Resources *Resources `json:"resources,omitempty"`

	// timeout is the maximum duration of a build, including the download of modules, and of a run
	// of the tests. Default: the setting "build.timeout". If that is not set, 1m. Range: 1s to 1h.
	// The cluster has a maximum, by default 10m (see the setting "build.maxTimeout"). Admission
	// rejects a longer timeout. If a stored spec exceeds the maximum, for example because the
	// maximum was lowered later, the operator uses the maximum; the function serves, but Ready is
	// False with reason InvalidSpec.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(([0-9]{1,9}([.][0-9]{1,9})?(ns|us|ms|s)|[0-9]{1,5}([.][0-9]{1,9})?[mh])+)$')",message="timeout must be a time such as 30s or 1m30s"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^(([0-9]{1,9}([.][0-9]{1,9})?(ns|us|ms|s)|[0-9]{1,5}([.][0-9]{1,9})?[mh])+)$') || duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="timeout must be from 1s to 1h"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// test runs the tests of the source (its _test.go files) before a new spec is rolled out, and
	// requires that they pass. A source without tests is not rolled out. The tests do not run if
	// only values in ConfigMaps or Secrets, or the FunctionClass, have changed. The build service
	// compiles the tests, and a Job in the namespace of the Function runs them as the
	// ServiceAccount default, without a token, with the resources and the timeout of the build. If
	// a test fails, nothing is rolled out, and the status contains the failures. A version that was
	// rolled out before is not tested again while its ControllerRevision exists. The strategy must
	// be Shared. Default: false.
	// +optional
	Test bool `json:"test,omitempty"`

	// testEnv is the list of environment variables of the tests. The tests also get the variables of
	// env and envFrom that are not from Secrets. A variable in testEnv replaces one of the same name.
	// A change of testEnv does not trigger a rollout, but repeats the tests of a version that is not
	// rolled out yet. A change of a ConfigMap or Secret to which only testEnv refers does not trigger
	// a rollout and does not repeat the tests. Maximum: 256.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	TestEnv []EnvVar `json:"testEnv,omitempty"`
}

// Tests reports whether the tests of the source run before a rollout.
func (f *Function) Tests() bool { return f.Spec.Build != nil && f.Spec.Build.Test }
