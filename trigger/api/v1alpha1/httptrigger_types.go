package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HostnamesAnnotation is on a namespace: the hostnames that its HTTPTriggers may have, words
// separated by spaces or lines. One that begins with *. stands for all below it. Without it
// there are none.
const HostnamesAnnotation = "goless.io/hostnames"

// Reasons of the condition Ready of an HTTPTrigger.
const (
	// ReasonHostnameNotAllowed means that the annotation goless.io/hostnames of the namespace
	// does not have a hostname of the trigger.
	ReasonHostnameNotAllowed = "HostnameNotAllowed"

	// ReasonHostnameTaken means that an older HTTPTrigger has a hostname with the same path.
	ReasonHostnameTaken = "HostnameTaken"

	// ReasonNoGatewayAPI means that there are parentRefs and no Gateway API.
	ReasonNoGatewayAPI = "NoGatewayAPI"

	// ReasonNotAccepted means that a gateway has not accepted the route yet, or refuses it.
	ReasonNotAccepted = "NotAccepted"
)

// HTTPTrigger gives Functions a URL outside of the cluster. With parentRefs it becomes an
// HTTPRoute of the Gateway API, otherwise an Ingress, of the same name.
//
// Which hostnames the triggers of a namespace may have is in its annotation
// goless.io/hostnames. Of two triggers that may have the same hostname with the same path, the
// older one has it, unless both are in the same namespace and different proxies get their
// requests: one has parentRefs and the other has none, or both have an ingressClassName and these
// differ.
//
// When parentRefs are added to a trigger, its Ingress is kept as it is until all the Gateways
// have accepted the HTTPRoute. When they are removed, the HTTPRoute is kept until the Ingress
// exists.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=goless
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && self.metadata.name.size() <= 63",message="metadata.name must be a DNS label of at most 63 lower-case letters, digits and '-': it is a label of what belongs to the trigger"
type HTTPTrigger struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is which requests go to which Functions.
	// +required
	Spec HTTPTriggerSpec `json:"spec"`

	// status is what was last seen in the cluster.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status HTTPTriggerStatus `json:"status,omitzero"`
}

// HTTPTriggerSpec is which requests go to which Functions.
//
// +kubebuilder:validation:XValidation:rule="has(self.functionRef) != has(self.backends)",message="set either functionRef or backends"
// +kubebuilder:validation:XValidation:rule="!has(self.backends) || self.backends.size() == 1 || has(self.parentRefs)",message="several backends need parentRefs: an Ingress has no weights"
// +kubebuilder:validation:XValidation:rule="!has(self.timeout) || has(self.parentRefs)",message="timeout is of an HTTPRoute, and needs parentRefs: controllers of Ingresses have annotations of their own for it"
// +kubebuilder:validation:XValidation:rule="!has(self.parentRefs) || !has(self.ingressClassName) && !has(self.tls)",message="ingressClassName and tls are of an Ingress, and parentRefs make an HTTPRoute: there the listener of the Gateway has the certificate"
type HTTPTriggerSpec struct {
	// functionRef names the Function that gets the requests.
	// +optional
	FunctionRef *FunctionReference `json:"functionRef,omitempty"`

	// backends share the requests by their weights, in the place of functionRef.
	// +optional
	// +listType=map
	// +listMapKey=function
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Backends []Backend `json:"backends,omitempty"`

	// hostnames of the requests. One may begin with *. and stands for all below it.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Hostnames []Hostname `json:"hostnames"`

	// path is what the path of a request is, or begins with before a slash; / by default,
	// which is every path.
	// +optional
	// +kubebuilder:default="/"
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^(/|(/[A-Za-z0-9._~-]+)+)$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('/[.][.]?(/|$)')",message="path must not have the parts . and .."
	Path string `json:"path,omitempty"`

	// parentRefs are the Gateways that take the requests.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	ParentRefs []ParentReference `json:"parentRefs,omitempty"`

	// timeout is how long a request may take, in timeouts.request of the HTTPRoute. By default it
	// is the timeout of the slowest Function and 70 seconds for it to wake, and there is none where
	// a Function has the timeout 0s. With 0s the HTTPRoute has no timeouts, for Gateways that
	// refuse routes with that field: then the default of the Gateway counts. From 1s to 2h
	// otherwise, rounded up to whole seconds.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|([0-9]{1,9}([.][0-9]{1,9})?(ns|us|ms|s)|[0-9]{1,5}([.][0-9]{1,9})?[mh])+)$')",message="timeout must be a time such as 30s or 1m30s"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^(0|([0-9]{1,9}([.][0-9]{1,9})?(ns|us|ms|s)|[0-9]{1,5}([.][0-9]{1,9})?[mh])+)$') || duration(self) == duration('0s') || duration(self) >= duration('1s') && duration(self) <= duration('2h')",message="timeout must be 0s, for none, or from 1s to 2h"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// ingressClassName is the class of the Ingress; the default one of the cluster when left
	// out.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	IngressClassName string `json:"ingressClassName,omitempty"`

	// tls of the Ingress; without it there is none.
	// +optional
	TLS *IngressTLS `json:"tls,omitempty"`
}

// Hostname is a name of DNS, or one that begins with *. for all below it.
//
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:Pattern=`^([*][.])?[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
type Hostname string

// Backend is a Function that gets a share of the requests.
type Backend struct {
	// function is the name of the Function.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Function string `json:"function"`

	// weight is the share of the Function, of the sum of all weights; 1 by default.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Weight *int32 `json:"weight,omitempty"`
}

// ParentReference names a Gateway.
type ParentReference struct {
	// name of the Gateway.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// namespace of the Gateway; that of the trigger when left out. The Gateway says from which
	// namespaces it takes routes.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// sectionName is the name of a listener of the Gateway; all that fit when left out.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SectionName string `json:"sectionName,omitempty"`
}

// IngressTLS is where the certificate of an Ingress is.
type IngressTLS struct {
	// secretName is the name of a Secret of the namespace, of the type kubernetes.io/tls.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName"`
}

// HTTPTriggerStatus is what was last seen in the cluster.
type HTTPTriggerStatus struct {
	TriggerStatus `json:",inline"`

	// url is that of the first hostname that does not begin with *., with the path, while there
	// is a Function that requests go to. It is https where spec.tls is set; whether a Gateway
	// takes https is for its listeners to say.
	// +optional
	URL string `json:"url,omitempty"`
}

// HTTPTriggerList is a list of HTTPTriggers.
//
// +kubebuilder:object:root=true
type HTTPTriggerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the HTTPTriggers.
	Items []HTTPTrigger `json:"items"`
}

// TriggerKind is HTTPTrigger.
func (*HTTPTrigger) TriggerKind() string { return "HTTPTrigger" }

// FunctionNames are those of the Functions that share the requests.
func (t *HTTPTrigger) FunctionNames() []string {
	var names []string
	for _, b := range t.Shares() {
		names = append(names, b.Function)
	}
	return names
}

// Shares are the backends, also where functionRef names the only one.
func (t *HTTPTrigger) Shares() []Backend {
	if t.Spec.FunctionRef != nil {
		return []Backend{{Function: t.Spec.FunctionRef.Name}}
	}
	return t.Spec.Backends
}

// CommonStatus is the part of the status that all kinds have.
func (t *HTTPTrigger) CommonStatus() *TriggerStatus { return &t.Status.TriggerStatus }
