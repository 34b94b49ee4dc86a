package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NATSTrigger calls a Function with the messages of a subject of NATS. It becomes the Deployment
// NAME-trigger, whose pod takes the messages.
//
// With spec.stream they are those that a stream of JetStream has, and each is delivered at least
// once: it is acknowledged when the function has answered with 2xx, or when the dead letter has
// it. Messages of the same subject are delivered one after the other. Without spec.stream they
// are delivered at most once, as NATS does it: those that come while the pod is not there are
// lost, and those that it has when it ends.
//
// A message is a CloudEvent of the type io.goless.nats.message in the binary mode of HTTP, with
// its subject in Ce-Subject and with its own headers. The header Ce-Id of a message of a stream
// is STREAM/SEQUENCE/TIME, with the time in nanoseconds at which the stream stored it: it is the same
// for each try, and a stream that is deleted and created again has other ids. With spec.batch a request
// has messages of any subjects, and of their headers only Content-Type.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=goless
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Delivered",type=string,JSONPath=`.status.conditions[?(@.type=="Delivered")].status`
// +kubebuilder:printcolumn:name="Function",type=string,JSONPath=`.spec.functionRef.name`
// +kubebuilder:printcolumn:name="Subject",type=string,JSONPath=`.spec.subject`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && self.metadata.name.size() <= 52",message="metadata.name must be a DNS label of at most 52 lower-case letters, digits and '-', and begin with a letter: the Deployment NAME-trigger is named after it"
type NATSTrigger struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is which messages go to which Function.
	// +required
	Spec NATSTriggerSpec `json:"spec"`

	// status is what was last seen in the cluster.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status NATSTriggerStatus `json:"status,omitzero"`
}

// NATSTriggerSpec is which messages go to which Function.
//
// +kubebuilder:validation:XValidation:rule="!has(self.deadLetter) || !self.deadLetter.contains('*') && !self.deadLetter.contains('>')",message="deadLetter must be a subject without wildcards"
// +kubebuilder:validation:XValidation:rule="!has(self.authentication) || !has(self.authentication.password) && !has(self.authentication.token) || has(self.tls) || self.servers.all(s, s.startsWith('tls://')) || has(self.authentication.insecure) && self.authentication.insecure",message="authentication.password and authentication.token are sent unencrypted without tls: set tls, use servers that begin with tls://, or set authentication.insecure"
type NATSTriggerSpec struct {
	StreamSpec `json:",inline"`

	// servers are URLs that begin with nats:// or tls://, of servers of the same cluster.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Servers []NATSServer `json:"servers"`

	// subject of the messages. It may have the wildcards * and >.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	Subject string `json:"subject"`

	// stream is the name of the stream of JetStream that has the messages. It must exist. Without it
	// they are delivered at most once.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[^\s.*>/\\]+$`
	Stream string `json:"stream,omitempty"`

	// consumer is the name of the durable consumer of the stream, or of the queue group
	// where there is no stream. Default: goless_NAMESPACE_NAME of the trigger, or
	// goless-NAMESPACE-NAME where a consumer of that name exists, belongs to no other trigger, and
	// none has the default name. A consumer that does not exist is created, and begins with the
	// first message that the stream has; it stays when the trigger is deleted. One of another owner
	// is used as it is: it must be a pull consumer with the ack policy explicit, the deliver policy
	// all and the filter spec.subject, without max_deliver and headers_only, and must not belong to
	// another trigger. Triggers of several clusters that use the same servers and account, and that
	// have the same namespace and name, need different names here: otherwise each gets a part of
	// the messages.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[^\s.*>/\\]+$`
	Consumer string `json:"consumer,omitempty"`

	// deadLetter is the subject that gets the messages which the function does not take, with
	// the headers Goless-Reason, Goless-Source, Goless-Id and Goless-Subject. A stream must
	// have it: it says when it has a message. A message that is too large with these headers, for
	// the servers or for that stream, is there without its data, with the header Goless-Truncated,
	// the size of its data in bytes. Without deadLetter, onExhausted holds.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	DeadLetter string `json:"deadLetter,omitempty"`

	// authentication is who the trigger is to the servers; nobody when left out.
	// +optional
	Authentication *NATSAuthentication `json:"authentication,omitempty"`

	// tls is how the servers are verified. Without it they are where a URL begins with
	// tls://, by public certificates.
	// +optional
	TLS *StreamTLS `json:"tls,omitempty"`
}

// NATSServer is the URL of a server.
//
// +kubebuilder:validation:MaxLength=512
// +kubebuilder:validation:Pattern=`^(nats|tls)://[A-Za-z0-9._:\[\]-]+$`
type NATSServer string

// NATSAuthentication is who a trigger is to the servers.
//
// +kubebuilder:validation:XValidation:rule="(has(self.password) ? 1 : 0) + (has(self.token) ? 1 : 0) + (has(self.nkey) ? 1 : 0) + (has(self.credentials) ? 1 : 0) == 1",message="authentication must have exactly one of password, token, nkey and credentials"
// +kubebuilder:validation:XValidation:rule="has(self.user) == has(self.password)",message="user and password belong together"
type NATSAuthentication struct {
	// user is the name of the user whose password is given.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	User string `json:"user,omitempty"`

	// password of the user. It is sent to the servers, and so needs spec.tls, servers that begin
	// with tls://, or insecure.
	// +optional
	Password *SecretKey `json:"password,omitempty"`

	// token replaces user and password. It is sent to the servers like a password.
	// +optional
	Token *SecretKey `json:"token,omitempty"`

	// insecure allows a password or token without TLS: it can be read on the network. Default:
	// false.
	// +optional
	Insecure bool `json:"insecure,omitempty"`

	// nkey is the seed of an nkey.
	// +optional
	NKey *SecretKey `json:"nkey,omitempty"`

	// credentials are a JWT with the seed of its nkey, as nsc writes them.
	// +optional
	Credentials *SecretKey `json:"credentials,omitempty"`
}

// NATSTriggerStatus is what was last seen in the cluster.
type NATSTriggerStatus struct {
	StreamTriggerStatus `json:",inline"`
}

// NATSTriggerList is a list of NATSTriggers.
//
// +kubebuilder:object:root=true
type NATSTriggerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the NATSTriggers.
	Items []NATSTrigger `json:"items"`
}

// TriggerKind is NATSTrigger.
func (*NATSTrigger) TriggerKind() string { return "NATSTrigger" }

// FunctionNames has the Function that gets the messages.
func (t *NATSTrigger) FunctionNames() []string { return []string{t.Spec.FunctionRef.Name} }

// CommonStatus is the part of the status that all kinds have.
func (t *NATSTrigger) CommonStatus() *TriggerStatus { return &t.Status.TriggerStatus }

// CommonSpec is the part of the spec that all kinds have which consume a stream.
func (t *NATSTrigger) CommonSpec() *StreamSpec { return &t.Spec.StreamSpec }

// StreamStatus is the part of the status that all kinds have which consume a stream.
func (t *NATSTrigger) StreamStatus() *StreamTriggerStatus { return &t.Status.StreamTriggerStatus }

// ConsumerName is the name of the durable consumer, or of the queue group. No name of a namespace or
// of a trigger contains the separator, so that no two triggers have the same default. The consuming pod
// derives the default of earlier releases from it.
func (t *NATSTrigger) ConsumerName() string {
	if t.Spec.Consumer != "" {
		return t.Spec.Consumer
	}
	return "goless_" + t.Namespace + "_" + t.Name
}
