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

	// DefaultRevisionHistoryLimit is how many sources of former versions are kept of
	// a Function that does not say.
	DefaultRevisionHistoryLimit = 5

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
// +kubebuilder:printcolumn:name="Replicas",type=string,JSONPath=`.status.replicaSummary`
// +kubebuilder:printcolumn:name="Service",type=string,JSONPath=`.status.service`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && self.metadata.name.size() <= 63",message="metadata.name must be a DNS label of at most 63 lower-case letters, digits and '-': it is a label of everything that belongs to the function",fieldPath=".metadata"
// +kubebuilder:validation:XValidation:rule="has(self.spec.service) || self.metadata.name.matches('^[a-z]')",message="metadata.name begins with a digit, which the name of a Service may not: set spec.service",fieldPath=".metadata"
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
//
// +kubebuilder:validation:XValidation:rule="!has(self.serviceAccountToken) || has(self.serviceAccountName)",message="it is a token of serviceAccountName: set that too",fieldPath=".serviceAccountToken"
type FunctionSpec struct {
	// Unreadable says why the rest of the spec is empty: what the cluster has is in
	// a form that no Function has. See Function.UnmarshalJSON.
	Unreadable string `json:"-"`

	// Summary stands for function where the operator has left that out of its memory. It is
	// nil where only function is there.
	Summary *SourceSummary `json:"-"`

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

	// className is the name of a FunctionClass, by which the administrators of the cluster
	// decide where the pods run, as whom, and with how much: kubectl get functionclasses.
	// When left out it is the default class of the namespace, if there is one. A class that
	// does not exist, or is not for this namespace, is refused; what serves goes on.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	ClassName string `json:"className,omitempty"`

	// serverPort is the port on which the function listens and its Service
	// answers, 1 to 65535. 9090 is taken: metrics and health are served there.
	// +optional
	// +kubebuilder:default=8080
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:validation:XValidation:rule="self != 9090",message="serverPort 9090 is taken by the metrics and health checks of the function: choose another"
	ServerPort int32 `json:"serverPort,omitempty"`

	// appProtocol tells gateways and meshes what the function speaks, as that of a port of a
	// Service: http, or kubernetes.io/h2c for HTTP/2 without TLS, which gRPC needs. Without it
	// they decide by themselves. The function answers both, whatever this says.
	// +optional
	// +kubebuilder:validation:Enum=http;kubernetes.io/h2c
	AppProtocol string `json:"appProtocol,omitempty"`

	// replicas is how many copies of the function run at the same time. 0 stops
	// the function and keeps its Service. kubectl scale and a
	// HorizontalPodAutoscaler on the Function set it too. Where scaling is given, 0
	// still stops the function, and other numbers mean nothing.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`

	// scaling lets the number of replicas follow the load: down to none while
	// nobody calls the function, and up while it is busy. Without it there are as
	// many as replicas says.
	// +optional
	Scaling *Scaling `json:"scaling,omitempty"`

	// env are environment variables of the function, as in a container. The
	// builder never sees them. A change rolls the function out anew, and so does
	// one of a ConfigMap that they come from, once in 10 seconds at most. Instead
	// of DRAIN_TIMEOUT set drainSeconds: a pod that does not end by itself is killed
	// after an hour where DRAIN_DELAY or DRAIN_TIMEOUT is set here, and after two
	// where both are.
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

	// files are directories of read-only files, below /files: each the keys of a ConfigMap
	// or of a Secret. The builder never sees them.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Files []File `json:"files,omitempty"`

	// scratch gives the function a directory /tmp to write in, where uploads of
	// multipart/form-data go that are too large for memory, for example. Without it the
	// function can write no file. Each pod has its own, which begins empty.
	// +optional
	Scratch *Scratch `json:"scratch,omitempty"`

	// serviceAccountName is the ServiceAccount, of the Function's namespace, that the pods run
	// as; default when left out. RBAC has to let functions run as it, by the verb
	// run-functions-as: docs/how-to/identity.md shows how. Otherwise it is refused, and what
	// serves goes on. The account by itself gives the function no token.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// serviceAccountToken gives the function a token of serviceAccountName, in the file
	// /var/run/secrets/kubernetes.io/serviceaccount/token, with the certificates of the
	// Kubernetes API in ca.crt beside it and the namespace in namespace. The builder never sees
	// it. Without it there is none.
	// +optional
	ServiceAccountToken *ServiceAccountToken `json:"serviceAccountToken,omitempty"`

	// resources of the container that serves. By default it requests 50m of cpu,
	// 32Mi of memory and 16Mi of ephemeral-storage, and is limited to 256Mi and
	// 1Gi of the latter two. The cluster's configuration of Goless may have other
	// defaults, and ceilings.
	// +optional
	Resources *Resources `json:"resources,omitempty"`

	// timeout is the longest time that one request may take, for example 5s or
	// 1m30s; 0s means any time. After it the handler's context ends, and the
	// caller gets 504, or a cut connection where the answer had begun. A handler
	// that ignores the end of its context goes on all the same, and keeps its place
	// in concurrency until it returns: the metric goless_requests_overdue counts
	// those. A pod that ends leaves its requests as much time, unless drainSeconds
	// is set. Unless timeout is 0s, reads and writes of the handler fail when the
	// client has sent and taken nothing for 60 seconds; REQUEST_STALL_TIMEOUT in env
	// changes that.
	// +optional
	// +kubebuilder:default="60s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|([0-9]{1,9}([.][0-9]{1,9})?(ns|us|ms|s)|[0-9]{1,5}([.][0-9]{1,9})?[mh])+)$')",message="timeout must be a time such as 30s or 1m30s"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^(0|([0-9]{1,9}([.][0-9]{1,9})?(ns|us|ms|s)|[0-9]{1,5}([.][0-9]{1,9})?[mh])+)$') || duration(self) == duration('0s') || duration(self) >= duration('1ms') && duration(self) <= duration('1h')",message="timeout must be 0s, for none, or from 1ms to 1h"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// drainSeconds is how many seconds a pod that ends gives running requests to
	// finish, from 0 to 3600. It defaults to timeout, but at least 20. The time begins
	// 15 seconds (the setting endpointPropagation) after the pod was told to end,
	// because until then new requests may come. 5 seconds after it the pod is killed.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	DrainSeconds *int32 `json:"drainSeconds,omitempty"`

	// concurrency is how many requests one replica works on at the same time; 0,
	// the default, means any number. The next one gets 503 with Retry-After. A
	// request that has timed out counts until its handler returns.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Concurrency int32 `json:"concurrency,omitempty"`

	// progressDeadlineSeconds is how long a rollout may go on without another replica
	// becoming ready, from 1 to 86400; 600 by default. After it Ready is false with the
	// reason ProgressDeadlineExceeded. What served goes on.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`

	// revisionHistoryLimit is how many sources of former versions stay in the
	// cluster, so that people can look at what ran before; 5 by default. The newest
	// ones stay, beside those that pods of the function start from. Each is a
	// ConfigMap: kubectl get configmaps -l goless.io/function=NAME shows them.
	// +optional
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=0
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// build is how the source is compiled.
	// +optional
	Build *BuildSpec `json:"build,omitempty"`
}

// SourceSummary is what the objects of a Function depend on in its source, beside the
// ConfigMap that holds it.
type SourceSummary struct {
	// SHA256 is that of the source, in hexadecimal digits.
	SHA256 string `json:"-"`

	// Modules tells whether the source has a go.mod, and may need modules.
	Modules bool `json:"-"`
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

// HistoryLimit is how many sources of former versions are kept.
func (f *Function) HistoryLimit() int {
	if f.Spec.RevisionHistoryLimit == nil || *f.Spec.RevisionHistoryLimit < 0 {
		return DefaultRevisionHistoryLimit
	}
	return int(*f.Spec.RevisionHistoryLimit)
}

// WantedReplicas is how many copies of the function shall run; 1 by default.
func (f *Function) WantedReplicas() int32 {
	if f.Spec.Replicas == nil {
		return 1
	}
	return *f.Spec.Replicas
}
