package v1beta1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// DefaultServerPort is the default of spec.serverPort.
	DefaultServerPort = 8080

	// DefaultTimeout is the default of spec.timeout.
	DefaultTimeout = 60 * time.Second

	// DefaultRevisionHistoryLimit is the default of spec.revisionHistoryLimit.
	DefaultRevisionHistoryLimit = 5

	// AdminPort is the port on which every function serves metrics and health checks.
	// spec.serverPort cannot be this port.
	AdminPort = 9090
)

// Function is an HTTP service defined by the Go source of its handler. Goless compiles the source
// in the cluster, runs it as a Deployment and exposes it as a Service.
//
// Permission to create Functions in a namespace implies permission to run code in that namespace
// and to read its Secrets and ConfigMaps.
//
// The cluster settings, such as the setting "namespaces", are in the ConfigMap goless-operator in
// the namespace of the operator; docs/settings.md describes them.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=fn,categories=goless
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Replicas",type=string,JSONPath=`.status.replicaSummary`
// +kubebuilder:printcolumn:name="Service",type=string,JSONPath=`.status.service`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && self.metadata.name.size() <= 63",message="metadata.name must be a DNS label of at most 63 lower-case letters, digits and '-', because it is a label value on all objects of the Function",fieldPath=".metadata"
// +kubebuilder:validation:XValidation:rule="has(self.spec.service) || self.metadata.name.matches('^[a-z]')",message="metadata.name starts with a digit, which is invalid for the name of a Service; set spec.service",fieldPath=".metadata"
type Function struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the desired state. A change triggers a rollout, except for a change of service,
	// appProtocol, replicas, scaling, rollout, revisionHistoryLimit, progressDeadlineSeconds,
	// build.test or build.testEnv. With the strategy Shared, a change of build.timeout or
	// build.resources does not change the pods either. But like a change that affects the pods, it
	// makes the function adopt a new version of Goless and changed settings, and if these change
	// the pods, it is rolled out. The old pods serve until the new ones are ready. If a version
	// failed its tests, a change of build.testEnv tests it again, and setting build.test to false
	// rolls it out without tests. After a change of rollout.verify, a version that was rolled back
	// is rolled out again.
	// +required
	Spec FunctionSpec `json:"spec"`

	// status is the state that the operator last observed.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1,"replicas":0,"readyReplicas":0}
	Status FunctionStatus `json:"status,omitzero"`
}

// FunctionSpec is the desired state of a Function.
//
// +kubebuilder:validation:XValidation:rule="!has(self.scaling) || !has(self.scaling.requests) || !has(self.concurrency) || self.concurrency == 0 || self.scaling.requests <= self.concurrency",message="requests must not be more than concurrency, which is the most that a replica serves at the same time",fieldPath=".scaling.requests"
// +kubebuilder:validation:XValidation:rule="!has(self.serviceAccountToken) || has(self.serviceAccountName)",message="serviceAccountToken requires serviceAccountName",fieldPath=".serviceAccountToken"
type FunctionSpec struct {
	// Unreadable is the error for a stored spec that does not match the schema. In that case, the
	// rest of the spec is empty. See Function.UnmarshalJSON.
	Unreadable string `json:"-"`

	// Summary replaces the source in the operator's cache. It is nil in a Function that was not read
	// from the cache.
	Summary *SourceSummary `json:"-"`

	// function is the Go source. It declares func Handler(w http.ResponseWriter, r *http.Request).
	// Its package can have any name except main, _, documentation and names that end in _test. It is
	// one of:
	//   - a single Go file, which may import the standard library, goless.io/runtime and
	//     goless.io/runtime/otlp
	//   - a txtar archive of several files: Go files, packages in subdirectories, files to embed,
	//     tests, and go.mod with go.sum for dependencies
	//
	// The source may also declare these hooks, each a func(context.Context) error:
	//   - Start runs before the first request.
	//   - Stop runs after the last request.
	//   - Ready reports whether the function can serve requests.
	//
	// A change is compiled and rolled out. The previous version serves until the new one is ready,
	// and indefinitely if the new one does not compile.
	//
	// Do not put secrets into the source: it is readable by anyone who can read Functions or
	// ConfigMaps. Maximum: 245760 characters. Use kubectl apply --server-side for more than about
	// 200000 bytes.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=245760
	Function string `json:"function"`

	// service is the name of the Service that receives the requests of the function. Default: the
	// name of the Function. It must be a DNS label of at most 63 lower-case letters, digits and '-'
	// that begins with a letter. A change creates the new Service and then deletes the old one. If
	// a Service of that name exists and does not belong to the Function, it is not changed and
	// Ready is False with reason ServiceConflict.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="service must be the name of a Service: lower-case letters, digits and '-', beginning with a letter and not ending with '-'"
	Service string `json:"service,omitempty"`

	// className is the name of the FunctionClass that sets the nodes, the user and the resource
	// limits of the pods. "kubectl get functionclasses" lists the classes. Default: the default
	// class of the namespace, if one exists. If the class does not exist or does not select the
	// namespace, the Function is invalid: the running pods keep serving, and no change takes
	// effect. Leave className out if the operator is restricted to some namespaces (see the setting
	// "namespaces").
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	ClassName string `json:"className,omitempty"`

	// serverPort is the port that the function listens on and that its Service exposes. Default:
	// 8080. Range: 1 to 65535, except 9090, which serves metrics and health checks.
	// +optional
	// +kubebuilder:default=8080
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:validation:XValidation:rule="self != 9090",message="serverPort 9090 is reserved for metrics and health checks; choose another port"
	ServerPort int32 `json:"serverPort,omitempty"`

	// appProtocol is the application protocol of the Service port, for gateways and service meshes:
	// http, or kubernetes.io/h2c for HTTP/2 without TLS, which gRPC requires. Default: none
	// (gateways and meshes choose a protocol), or http if serverPort is 443, because some gateways
	// and meshes use TLS for port 443. The function accepts both protocols regardless of this
	// field.
	// +optional
	// +kubebuilder:validation:Enum=http;kubernetes.io/h2c
	AppProtocol string `json:"appProtocol,omitempty"`

	// replicas is the number of pods. Default: 1. Minimum: 0, which stops the function and keeps
	// its Service. "kubectl scale" and a HorizontalPodAutoscaler that targets the Function set this
	// field. If scaling is set, 0 stops the function, other values are ignored, and autoscaling does
	// not change this field.
	//
	// The cluster has a maximum, by default 100 (see the setting "function.maxReplicas"). Admission
	// rejects a larger number. If a stored spec exceeds the maximum, for example because the
	// maximum was lowered later, the operator uses the maximum; the function serves, but Ready is
	// False with reason InvalidSpec.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`

	// scaling adjusts the number of replicas to the load, down to zero for an idle function.
	// Default: none (the number of replicas is fixed).
	// +optional
	Scaling *Scaling `json:"scaling,omitempty"`

	// env is the list of environment variables of the function, as in a container. Maximum: 256.
	// The build does not receive them. A change triggers a rollout. So does a change of a value in
	// a referenced ConfigMap, at most once every 10 seconds (see the setting "referencePause").
	//
	// Do not set DRAIN_TIMEOUT; use drainSeconds. DRAIN_DELAY is the time for which a terminating
	// pod still accepts requests, by default 15 seconds (see the setting "endpointPropagation").
	// The operator does not read the values of these two variables. Instead, each of the two that
	// is in env counts as one hour in the termination grace period of the pod, so that the kubelet
	// does not kill the pod too early. A pod that hangs while it terminates is therefore killed
	// only after one or two hours.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Env []EnvVar `json:"env,omitempty"`

	// envFrom creates environment variables from ConfigMaps and Secrets, as in a container.
	// Maximum: 32. If several entries define a variable, the last one wins, and env overrides all
	// of them. Do not use the reserved names (see env[].name) as keys. Goless sets some of these
	// variables, such as SERVER_PORT; such a key has no effect. The keys DRAIN_DELAY (use env) and
	// DRAIN_TIMEOUT (use drainSeconds) have no effect either. The build does not receive the
	// variables.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	EnvFrom []EnvFromSource `json:"envFrom,omitempty"`

	// files mounts ConfigMaps and Secrets as directories of read-only files below /files. Maximum:
	// 32. The build does not receive them.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Files []File `json:"files,omitempty"`

	// scratch mounts a writable directory at /tmp, for example for multipart/form-data uploads that
	// do not fit into memory. Each pod has its own directory, which is empty at the start. Default:
	// none (the function cannot write files).
	// +optional
	Scratch *Scratch `json:"scratch,omitempty"`

	// serviceAccountName is the ServiceAccount that the pods run as, in the namespace of the
	// Function. Default: the ServiceAccount named default. RBAC must allow the operator the verb
	// run-functions-as on the ServiceAccount; see docs/how-to/identity.md. Otherwise the Function
	// is invalid: the running pods keep serving, and no change takes effect. The pods have no token
	// unless serviceAccountToken is set.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// serviceAccountToken mounts a token of the ServiceAccount at
	// /var/run/secrets/kubernetes.io/serviceaccount/token. It requires serviceAccountName. The
	// files ca.crt (the certificates of the Kubernetes API) and namespace are in the same
	// directory. The build does not receive the token. Default: none.
	// +optional
	ServiceAccountToken *ServiceAccountToken `json:"serviceAccountToken,omitempty"`

	// resources are the resource requests and limits of the function container. Defaults, unless
	// the FunctionClass or the cluster settings change them:
	//   - requests: cpu 50m, memory 32Mi, ephemeral-storage 16Mi
	//   - limits: memory 256Mi, ephemeral-storage 1Gi. By default, cpu has no limit. If an
	//     administrator sets cpu in maxResources of the FunctionClass or in the setting
	//     "function.maxResources", that value is also the default limit of cpu. The built-in
	//     maximum of 4 cpu (see below) is not a default limit
	//
	// Each amount in this field has a maximum: maxResources of the FunctionClass, or else the
	// setting "function.maxResources" (default: 4 cpu, 4Gi of memory and 4Gi of ephemeral-storage).
	// Admission rejects a larger amount. If a stored spec exceeds the maximum, for example because
	// the maximum was lowered later, the operator uses the maximum; the function serves, but Ready
	// is False with reason InvalidSpec. If no administrator has set a maximum of cpu, a function
	// without a limit of cpu can use more than 4 cpu.
	// +optional
	Resources *Resources `json:"resources,omitempty"`

	// timeout is the maximum duration of one request, such as 5s or 1m30s. Default: 60s. Range: 1ms
	// to 1h, or 0s for no timeout. It does not apply to hijacked connections, such as WebSockets.
	//
	// When it expires, the context of the handler is canceled and the client receives 504, or a
	// closed connection if the response has begun. A handler that ignores its context keeps running
	// and counts towards concurrency until it returns; the metric goless_requests_overdue counts
	// such requests.
	//
	// A terminating pod gives its requests drainSeconds to finish (default: timeout, or 20 seconds
	// if timeout is shorter or 0s).
	//
	// If a client makes no progress for 60 seconds while the handler reads the body or writes the
	// response, that read or write fails. The variable REQUEST_STALL_TIMEOUT in env sets another
	// limit. If spec.timeout is 0s, there is no such limit, unless env sets the variable.
	// +optional
	// +kubebuilder:default="60s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|([0-9]{1,9}([.][0-9]{1,9})?(ns|us|ms|s)|[0-9]{1,5}([.][0-9]{1,9})?[mh])+)$')",message="timeout must be a time such as 30s or 1m30s"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^(0|([0-9]{1,9}([.][0-9]{1,9})?(ns|us|ms|s)|[0-9]{1,5}([.][0-9]{1,9})?[mh])+)$') || duration(self) == duration('0s') || duration(self) >= duration('1ms') && duration(self) <= duration('1h')",message="timeout must be 0s, for none, or from 1ms to 1h"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// drainSeconds is the number of seconds that a terminating pod gives its running requests to
	// finish. Default: timeout, but at least 20; 20 if timeout is 0s. Range: 0 to 3600.
	//
	// The period begins 15 seconds (see the setting "endpointPropagation") after the pod begins to
	// terminate, because new requests can arrive until then. The pod is killed 5 seconds after the
	// period. drainSeconds cannot be combined with the variable DRAIN_TIMEOUT in env.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	DrainSeconds *int32 `json:"drainSeconds,omitempty"`

	// concurrency is the maximum number of requests that one replica serves at the same time.
	// Requests beyond this limit receive 503 with Retry-After. A request that has timed out counts
	// until its handler returns. Default: 0 (no limit). Minimum: 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Concurrency int32 `json:"concurrency,omitempty"`

	// progressDeadlineSeconds is how many seconds a rollout may last without another replica
	// becoming ready. When it is exceeded, Ready becomes False with reason
	// ProgressDeadlineExceeded; the previous version keeps serving. The time that rollout.verify
	// may take is added. Default: 600. Range: 1 to 86400.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`

	// rollout configures how a new version replaces the previous one. Default: the new version
	// replaces the previous one when its pods are ready. A change of this field does not restart
	// pods, but a version that was rolled back is rolled out again when verify changes.
	// +optional
	Rollout *Rollout `json:"rollout,omitempty"`

	// revisionHistoryLimit is the number of former revisions to keep; "builder rollback" returns to
	// one of them. Default: 5. Minimum: 0. The newest are kept, and in addition those that pods
	// use. Each revision has a ControllerRevision and a ConfigMap with its source; revisions with
	// the same source share the ConfigMap. "kubectl get controllerrevisions,configmaps -l
	// goless.io/function=NAME" lists both.
	// +optional
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=0
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// build configures how the source is compiled.
	// +optional
	Build *BuildSpec `json:"build,omitempty"`
}

// SourceSummary contains the properties of a source that the operator needs to generate the objects
// of a Function. It reads the source itself only to validate it, to write its ConfigMap and to
// request its build.
type SourceSummary struct {
	// SHA256 is the SHA-256 hash of the source, in hexadecimal.
	SHA256 string `json:"-"`

	// Modules reports whether the source contains a go.mod and may require modules.
	Modules bool `json:"-"`
}

// FunctionList is a list of Functions.
//
// +kubebuilder:object:root=true
type FunctionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items is the list of Functions.
	Items []Function `json:"items"`
}

// ServiceName returns the name of the Service that receives the requests of the function.
func (f *Function) ServiceName() string {
	if f.Spec.Service == "" {
		return f.Name
	}
	return f.Spec.Service
}

// Port returns the port that the function listens on.
func (f *Function) Port() int32 {
	if f.Spec.ServerPort == 0 {
		return DefaultServerPort
	}
	return f.Spec.ServerPort
}

// RequestTimeout returns the maximum duration of one request; 0 means no timeout.
func (f *Function) RequestTimeout() time.Duration {
	if f.Spec.Timeout == nil {
		return DefaultTimeout
	}
	return f.Spec.Timeout.Duration
}

// HistoryLimit returns the number of former revisions to keep.
func (f *Function) HistoryLimit() int {
	if f.Spec.RevisionHistoryLimit == nil || *f.Spec.RevisionHistoryLimit < 0 {
		return DefaultRevisionHistoryLimit
	}
	return int(*f.Spec.RevisionHistoryLimit)
}

// WantedReplicas returns spec.replicas, or 1 if it is not set.
func (f *Function) WantedReplicas() int32 {
	if f.Spec.Replicas == nil {
		return 1
	}
	return *f.Spec.Replicas
}
