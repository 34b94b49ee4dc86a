package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HostnamesAnnotation is set on a namespace. It lists the hostnames that the HTTPTriggers of the
// namespace may use, separated by spaces or line breaks. A wildcard entry, such as *.example.com,
// allows all subdomains of example.com. Without the annotation, no hostname is allowed.
const HostnamesAnnotation = "goless.io/hostnames"

// Reasons of the condition Ready of an HTTPTrigger.
const (
	// ReasonHostnameNotAllowed means that the annotation goless.io/hostnames of the namespace does
	// not allow a hostname of the trigger.
	ReasonHostnameNotAllowed = "HostnameNotAllowed"

	// ReasonHostnameTaken means that an older HTTPTrigger uses a hostname of the trigger with the
	// same path.
	ReasonHostnameTaken = "HostnameTaken"

	// ReasonNoGatewayAPI means that parentRefs is set but the kind Gateway or HTTPRoute is not
	// installed.
	ReasonNoGatewayAPI = "NoGatewayAPI"

	// ReasonNotAccepted means that a Gateway has not accepted the HTTPRoute yet, rejects it or does
	// not exist.
	ReasonNotAccepted = "NotAccepted"
)

// HTTPTrigger exposes Functions at a URL outside the cluster. It creates an HTTPRoute of the
// Gateway API if parentRefs is set, and an Ingress otherwise. The object has the name of the
// trigger.
//
// The annotation goless.io/hostnames of the namespace lists the hostnames that its triggers may
// use. If two triggers list the same hostname and have the same path, and both are allowed to use
// their hostnames, only the older one is ready. As an exception, both are ready if they are in the
// same namespace and different proxies serve them, which is the case if either:
//   - One trigger has parentRefs and the other has none.
//   - Both have an ingressClassName, and the two differ.
//
// When parentRefs is added to a trigger, its Ingress is kept unchanged until 15 seconds after all
// Gateways have accepted the HTTPRoute. When parentRefs is removed, the HTTPRoute is kept until 15
// seconds after the Ingress was created. This gives the proxies time to load the new route. If the
// same change removes a hostname or changes path, the old object is deleted immediately.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=goless
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && self.metadata.name.size() <= 63",message="metadata.name must be a DNS label of at most 63 lower-case letters, digits and '-': it is used as a label value"
type HTTPTrigger struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the desired state. A change updates the HTTPRoute or the Ingress.
	// +required
	Spec HTTPTriggerSpec `json:"spec"`

	// status is the state that was last observed.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status HTTPTriggerStatus `json:"status,omitzero"`
}

// HTTPTriggerSpec is the desired state of an HTTPTrigger.
//
// +kubebuilder:validation:XValidation:rule="has(self.functionRef) != has(self.backends)",message="set either functionRef or backends"
// +kubebuilder:validation:XValidation:rule="!has(self.backends) || self.backends.size() == 1 || has(self.parentRefs)",message="more than one backend requires parentRefs: an Ingress does not support weights"
// +kubebuilder:validation:XValidation:rule="!has(self.timeout) || has(self.parentRefs)",message="timeout requires parentRefs: an Ingress has no timeout field; use the annotation of the Ingress controller"
// +kubebuilder:validation:XValidation:rule="!has(self.parentRefs) || !has(self.ingressClassName) && !has(self.tls)",message="ingressClassName and tls cannot be combined with parentRefs: configure the certificate in the listener of the Gateway"
type HTTPTriggerSpec struct {
	// functionRef is the Function that receives the requests. Exactly one of functionRef and
	// backends is required.
	// +optional
	FunctionRef *FunctionReference `json:"functionRef,omitempty"`

	// backends are the Functions that share the requests by weight, as an alternative to
	// functionRef. A Function that has no Service receives no requests. Maximum: 8. More than one
	// backend requires parentRefs.
	// +optional
	// +listType=map
	// +listMapKey=function
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Backends []Backend `json:"backends,omitempty"`

	// hostnames are the hostnames of the requests. A wildcard hostname, such as *.example.com,
	// matches the subdomains of example.com (in an Ingress, only those of one level). The
	// annotation goless.io/hostnames of the namespace must list each of them, or a wildcard
	// hostname that matches it, separated by spaces. If one is not allowed, or not any more, the
	// HTTPRoute or the Ingress is deleted. Maximum: 16.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Hostnames []Hostname `json:"hostnames"`

	// path is a path prefix: it matches requests with this path and with the paths below it. The
	// function receives the path unchanged. Default: /, which matches every path. It begins with a
	// slash and, unless it is /, does not end with one. Between slashes, it contains letters,
	// digits and the characters . _ ~ and -. Maximum: 512 characters.
	// +optional
	// +kubebuilder:default="/"
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^(/|(/[A-Za-z0-9._~-]+)+)$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('/[.][.]?(/|$)')",message="path must not have the parts . and .."
	Path string `json:"path,omitempty"`

	// parentRefs are the Gateways that receive the requests. If it is set, the trigger creates an
	// HTTPRoute, which requires the Gateway API. Default: none (the trigger creates an Ingress).
	// Maximum: 8.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	ParentRefs []ParentReference `json:"parentRefs,omitempty"`

	// timeout is the maximum duration of a request, such as 30s or 1m30s. It is set as
	// timeouts.request in the rules of the HTTPRoute and requires parentRefs. Default: the longest
	// timeout of the Functions plus 70 seconds (the time for a function that is scaled to zero to
	// start), or 0s if one of the Functions has the timeout 0s. Range: 1s to 2h, rounded up to
	// whole seconds, or 0s.
	//
	// With 0s, the HTTPRoute has no timeouts, and the default of the Gateway applies. Use 0s for
	// Gateways that reject HTTPRoutes with the field timeouts.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|([0-9]{1,9}([.][0-9]{1,9})?(ns|us|ms|s)|[0-9]{1,5}([.][0-9]{1,9})?[mh])+)$')",message="timeout must be a time such as 30s or 1m30s"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^(0|([0-9]{1,9}([.][0-9]{1,9})?(ns|us|ms|s)|[0-9]{1,5}([.][0-9]{1,9})?[mh])+)$') || duration(self) == duration('0s') || duration(self) >= duration('1s') && duration(self) <= duration('2h')",message="timeout must be 0s, for a route without timeouts, or from 1s to 2h"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// ingressClassName is the class of the Ingress. Default: the default class of the cluster. It
	// cannot be combined with parentRefs.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	IngressClassName string `json:"ingressClassName,omitempty"`

	// tls enables TLS for the Ingress. Default: none. It cannot be combined with parentRefs; the
	// listener of a Gateway has its own certificate.
	// +optional
	TLS *IngressTLS `json:"tls,omitempty"`
}

// Hostname is a DNS name, or a wildcard for subdomains, such as *.example.com.
//
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:Pattern=`^([*][.])?[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
type Hostname string

// Backend is a Function that receives a share of the requests.
type Backend struct {
	// function is the name of the Function.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Function string `json:"function"`

	// weight is the share of the requests, relative to the sum of all weights. Default: 1. Range: 0
	// to 1000000.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Weight *int32 `json:"weight,omitempty"`
}

// ParentReference refers to a Gateway.
type ParentReference struct {
	// name is the name of the Gateway.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// namespace is the namespace of the Gateway. Default: the namespace of the trigger. The Gateway
	// must allow routes from the namespace of the trigger.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// sectionName is the name of a listener of the Gateway. Default: all listeners that match.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SectionName string `json:"sectionName,omitempty"`
}

// IngressTLS configures TLS for an Ingress.
type IngressTLS struct {
	// secretName is the name of a Secret of type kubernetes.io/tls in the namespace of the trigger.
	// It contains the certificate for all hostnames and its key.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName"`
}

// HTTPTriggerStatus is the observed state of an HTTPTrigger.
type HTTPTriggerStatus struct {
	TriggerStatus `json:",inline"`

	// url is the URL of the first hostname without a wildcard, followed by the path. It is empty if
	// no Function has a Service, if a hostname is not allowed or is taken, if the Gateway API is
	// required but not installed, or if all hostnames are wildcards. It does not report whether a
	// Gateway accepts the route; see the condition Ready. The scheme is https if spec.tls is set
	// and http otherwise; the listeners of a Gateway may accept https too.
	// +optional
	URL string `json:"url,omitempty"`
}

// HTTPTriggerList is a list of HTTPTriggers.
//
// +kubebuilder:object:root=true
type HTTPTriggerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items is the list of HTTPTriggers.
	Items []HTTPTrigger `json:"items"`
}

// TriggerKind returns HTTPTrigger.
func (*HTTPTrigger) TriggerKind() string { return "HTTPTrigger" }

// FunctionNames returns the names of the Functions that share the requests.
func (t *HTTPTrigger) FunctionNames() []string {
	var names []string
	for _, b := range t.Shares() {
		names = append(names, b.Function)
	}
	return names
}

// Shares returns the backends. If functionRef is set, it returns one backend for it.
func (t *HTTPTrigger) Shares() []Backend {
	if t.Spec.FunctionRef != nil {
		return []Backend{{Function: t.Spec.FunctionRef.Name}}
	}
	return t.Spec.Backends
}

// CommonStatus returns the part of the status that is common to all triggers.
func (t *HTTPTrigger) CommonStatus() *TriggerStatus { return &t.Status.TriggerStatus }
