package v1beta1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// DefaultServerPort is the port of a Function that names none.
	DefaultServerPort = 8080

	// DefaultTimeout is the longest time of one request of a Function that names
	// none.
	DefaultTimeout = 60 * time.Second

	// AdminPort serves metrics and health beside every function. It is not
	// available as spec.serverPort.
	AdminPort = 9090
)

// Function is an HTTP service, given by the Go source of its handler. Goless
// compiles the source inside the cluster, runs it as a Deployment and exposes
// it as a Service.
//
// Whoever may create Functions in a namespace may run code in that namespace, and
// read its Secrets and ConfigMaps.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=fn,categories=goless
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Service",type=string,JSONPath=`.spec.service`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && self.metadata.name.size() <= 63",message="metadata.name must be a DNS label of at most 63 lower-case letters, digits and '-': it is a label of everything that belongs to the function"
// +kubebuilder:validation:XValidation:rule="has(self.spec.service) || self.metadata.name.matches('^[a-z]')",message="metadata.name begins with a digit, which the name of a Service may not: set spec.service"
type Function struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what the user wants to run.
	// +required
	Spec FunctionSpec `json:"spec"`

	// status is what the operator last saw in the cluster.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1,"replicas":0,"readyReplicas":0}
	Status FunctionStatus `json:"status,omitzero"`
}

// FunctionSpec is what a user wants to run.
type FunctionSpec struct {
	// Unreadable says why the rest of the spec is empty: what the cluster has is in
	// a form that no Function has. See Function.UnmarshalJSON.
	Unreadable string `json:"-"`

	// function is the Go source: of any package but main, declaring
	// func Handler(w http.ResponseWriter, r *http.Request). It is one file, which
	// may import the standard library, or a txtar archive of several: more Go
	// files, packages below, files to embed, tests, and go.mod with go.sum for
	// dependencies. It may declare Start, Stop and Ready as well, each a
	// func(context.Context) error: before the first request, after the last, and
	// whether it can answer. A change is compiled and rolled out; the
	// version before it goes on serving until the new one is ready, and for as
	// long as the new one does not compile. Whoever may read Functions or
	// ConfigMaps can read the source: keep secrets out of it. At most 245760
	// characters; kubectl apply needs --server-side for more than 200000 bytes.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=245760
	Function string `json:"function"`

	// service is the name of the Service that receives the function's requests;
	// the name of the Function when left out. A change moves the Service. A
	// Service of that name that belongs to somebody else is left alone, and the
	// Function says so in its status.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="service must be the name of a Service: lower-case letters, digits and '-', beginning with a letter and not ending with '-'"
	Service string `json:"service,omitempty"`

	// serverPort is the port on which the function listens and its Service
	// answers, 1 to 65535. 9090 is taken: metrics and health are served there.
	// +optional
	// +kubebuilder:default=8080
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:validation:XValidation:rule="self != 9090",message="serverPort 9090 is taken by the metrics and health checks of the function: choose another"
	ServerPort int32 `json:"serverPort,omitempty"`

	// replicas is how many copies of the function run at the same time. 0 stops
	// the function and keeps its Service. kubectl scale and a
	// HorizontalPodAutoscaler on the Function set it too.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`

	// env are environment variables of the function, as in a container. The
	// builder never sees them. A change rolls the function out anew, and so does
	// one of a ConfigMap that they come from, once in 10 seconds at most. A pod
	// waits for DRAIN_DELAY and DRAIN_TIMEOUT to pass before it is killed, an hour
	// each at most, and as long where their values are kept elsewhere.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Env []EnvVar `json:"env,omitempty"`

	// envFrom makes environment variables of ConfigMaps and Secrets, as in a
	// container. Of two variables with one name the later one counts, and env
	// before all of them; DRAIN_DELAY and DRAIN_TIMEOUT are set in env only. The
	// builder never sees them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	EnvFrom []EnvFromSource `json:"envFrom,omitempty"`

	// resources of the container that serves. By default it requests 50m of cpu,
	// 32Mi of memory and 16Mi of ephemeral-storage, and is limited to 256Mi and
	// 1Gi of the latter two. The cluster's configuration of Goless may have other
	// defaults, and ceilings.
	// +optional
	Resources *Resources `json:"resources,omitempty"`

	// timeout is the longest time that one request may take, for example 5s or
	// 1m30s; 0s means any time. After it the handler's context ends, and the
	// caller gets 504, or a cut connection where the answer had begun. A pod that
	// ends leaves its requests as much time.
	// +optional
	// +kubebuilder:default="60s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+([.][0-9]+)?(ns|us|ms|s|m|h))+)$`
	// +kubebuilder:validation:XValidation:rule="duration(self) == duration('0s') || duration(self) >= duration('1ms') && duration(self) <= duration('1h')",message="timeout must be 0s, for none, or from 1ms to 1h"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// concurrency is how many requests one replica works on at the same time; 0,
	// the default, means any number. The next one gets 503 with Retry-After.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Concurrency int32 `json:"concurrency,omitempty"`

	// build is how the source is compiled.
	// +optional
	Build *BuildSpec `json:"build,omitempty"`
}

// FunctionList is a list of Functions.
//
// +kubebuilder:object:root=true
type FunctionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the Functions.
	Items []Function `json:"items"`
}

// ServiceName is the name of the Service that receives the function's requests.
func (f *Function) ServiceName() string {
	if f.Spec.Service == "" {
		return f.Name
	}
	return f.Spec.Service
}

// Port is the port on which the function listens.
func (f *Function) Port() int32 {
	if f.Spec.ServerPort == 0 {
		return DefaultServerPort
	}
	return f.Spec.ServerPort
}

// RequestTimeout is the longest time of one request; 0 means any time.
func (f *Function) RequestTimeout() time.Duration {
	if f.Spec.Timeout == nil {
		return DefaultTimeout
	}
	return f.Spec.Timeout.Duration
}

// WantedReplicas is how many copies of the function shall run; 1 by default.
func (f *Function) WantedReplicas() int32 {
	if f.Spec.Replicas == nil {
		return 1
	}
	return *f.Spec.Replicas
}
