package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NATSTrigger calls a Function with the messages of a NATS subject. It creates the Deployment
// NAME-trigger, whose pod receives the messages.
//
// With spec.stream, the messages come from a stream of JetStream and each is delivered at least
// once: it is acknowledged when the function has responded with 2xx, or when it is stored under the
// dead-letter subject or dropped. Messages of the same subject are delivered one after the other.
//
// Without spec.stream, messages are delivered at most once. Messages are lost if they arrive while
// the pod is not running, if they still wait when the pod terminates, or if they arrive while the
// pod already holds about 64 MiB of messages.
//
// A message is sent as a CloudEvent of type io.goless.nats.message, over HTTP in binary content
// mode:
//   - Ce-Id is STREAM/SEQUENCE/TIME for a message of a stream. TIME is when the stream stored the
//     message, in nanoseconds. The ID is the same for all attempts, and differs after the stream
//     is deleted and recreated. Without a stream, it is the header Nats-Msg-Id or a random ID.
//   - Ce-Subject is the subject of the message.
//   - The headers of the message are sent too, except invalid headers, headers of the connection
//     such as Host, and headers that begin with Nats-, ce- or ce_. If attributes and headers exceed
//     12 KiB in total, some are omitted, and Ce-Golessomitted contains their number, such as "0
//     attributes, 3 headers".
//
// A message that is itself a CloudEvent keeps its own attributes, such as Ce-Id and Ce-Type. Its
// attribute golessid (Ce-Golessid) contains the ID in the format above.
//
// With spec.batch, a request contains several messages, possibly of different subjects, in batched
// content mode. Of their headers, only Content-Type is sent, as the attribute datacontenttype.
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

	// spec is the desired state. A change replaces the pod, except for a change of scale or
	// authentication.insecure. A change of the timeout, the Service or the port of the Function
	// also replaces the pod.
	// +required
	Spec NATSTriggerSpec `json:"spec"`

	// status is the state that was last observed.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status NATSTriggerStatus `json:"status,omitzero"`
}

// NATSTriggerSpec is the desired state of a NATSTrigger.
//
// +kubebuilder:validation:XValidation:rule="!has(self.deadLetter) || !self.deadLetter.contains('*') && !self.deadLetter.contains('>')",message="deadLetter must be a subject without wildcards"
// +kubebuilder:validation:XValidation:rule="!has(self.authentication) || !has(self.authentication.password) && !has(self.authentication.token) || has(self.tls) || self.servers.all(s, s.startsWith('tls://')) || has(self.authentication.insecure) && self.authentication.insecure",message="authentication.password and authentication.token are sent unencrypted without tls: set tls, use servers that begin with tls://, or set authentication.insecure"
type NATSTriggerSpec struct {
	StreamSpec `json:",inline"`

	// servers are the URLs of servers of one cluster. Each begins with nats:// or tls://.
	// Maximum: 16.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Servers []NATSServer `json:"servers"`

	// subject is the subject of the messages. It may contain the wildcards * and >. Maximum: 255
	// characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	Subject string `json:"subject"`

	// stream is the name of the JetStream stream that contains the messages. It must exist.
	// Default: none (messages are delivered at most once).
	// +optional
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[^\s.*>/\\]+$`
	Stream string `json:"stream,omitempty"`

	// consumer is the name of the durable consumer of the stream, or of the queue group if stream
	// is not set. Default: goless_NAMESPACE_NAME, with the namespace and the name of the trigger.
	// Earlier releases of Goless named the consumer goless-NAMESPACE-NAME. A trigger with stream
	// still uses that consumer if:
	//   - spec.consumer is not set, or begins with goless_ (the earlier name is then that name with
	//     '-' instead of '_'),
	//   - the consumer goless_NAMESPACE_NAME does not exist, and
	//   - goless-NAMESPACE-NAME exists and does not belong to another trigger.
	//
	// If the consumer does not exist, the trigger creates it. It then begins with the first message
	// of the stream, and is not deleted with the trigger. An existing consumer that was not created
	// for this trigger is used unchanged. It must:
	//   - be a pull consumer with ack policy explicit and deliver policy all
	//   - have spec.subject as its filter, or no filter if spec.subject is ">"
	//   - have max_deliver -1 (no limit) and headers_only false
	//   - not belong to another trigger (metadata goless.io/trigger)
	//
	// If several clusters use the same servers and account, and their triggers have the same
	// namespace and name, set a different consumer in each cluster. Otherwise each trigger receives
	// only a part of the messages.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[^\s.*>/\\]+$`
	Consumer string `json:"consumer,omitempty"`

	// deadLetter is the dead-letter subject, for messages that the function does not accept. It
	// must belong to a JetStream stream, which acknowledges that a message is stored. It must not
	// contain wildcards or match spec.subject. Default: none (onExhausted applies). Maximum: 255
	// characters.
	//
	// The message has the additional headers Goless-Reason, Goless-Source, Goless-Id and
	// Goless-Subject. If it is too large for the servers or the stream, it is published without its
	// data, and if necessary without its own headers, and the header Goless-Truncated contains the
	// size of the data in bytes.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	DeadLetter string `json:"deadLetter,omitempty"`

	// authentication is how the trigger authenticates to the servers. Default: none.
	// +optional
	Authentication *NATSAuthentication `json:"authentication,omitempty"`

	// tls encrypts the connections and configures how the servers are verified. Default: TLS for
	// servers that begin with tls://, with public CA certificates.
	// +optional
	TLS *StreamTLS `json:"tls,omitempty"`
}

// NATSServer is the URL of a server.
//
// +kubebuilder:validation:MaxLength=512
// +kubebuilder:validation:Pattern=`^(nats|tls)://[A-Za-z0-9._:\[\]-]+$`
type NATSServer string

// NATSAuthentication is how a trigger authenticates to the servers. Exactly one of password, token,
// nkey and credentials is required.
//
// +kubebuilder:validation:XValidation:rule="(has(self.password) ? 1 : 0) + (has(self.token) ? 1 : 0) + (has(self.nkey) ? 1 : 0) + (has(self.credentials) ? 1 : 0) == 1",message="authentication must have exactly one of password, token, nkey and credentials"
// +kubebuilder:validation:XValidation:rule="has(self.user) == has(self.password)",message="user and password must be set together"
type NATSAuthentication struct {
	// user is the user name. It requires password.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	User string `json:"user,omitempty"`

	// password selects the password of the user, in a Secret in the namespace of the trigger. It is
	// sent to the servers and therefore requires spec.tls, servers that begin with tls://, or
	// insecure.
	// +optional
	Password *SecretKey `json:"password,omitempty"`

	// token selects a token, as an alternative to user and password. It is sent to the servers and
	// therefore requires spec.tls, servers that begin with tls://, or insecure.
	// +optional
	Token *SecretKey `json:"token,omitempty"`

	// insecure allows a password or token without TLS. It can then be intercepted on the network.
	// Default: false.
	// +optional
	Insecure bool `json:"insecure,omitempty"`

	// nkey selects the seed of an NKey.
	// +optional
	NKey *SecretKey `json:"nkey,omitempty"`

	// credentials selects a JWT with the seed of its NKey, in the format of nsc.
	// +optional
	Credentials *SecretKey `json:"credentials,omitempty"`
}

// NATSTriggerStatus is the observed state of a NATSTrigger.
type NATSTriggerStatus struct {
	StreamTriggerStatus `json:",inline"`
}

// NATSTriggerList is a list of NATSTriggers.
//
// +kubebuilder:object:root=true
type NATSTriggerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items is the list of NATSTriggers.
	Items []NATSTrigger `json:"items"`
}

// TriggerKind returns NATSTrigger.
func (*NATSTrigger) TriggerKind() string { return "NATSTrigger" }

// FunctionNames returns the name of the Function that receives the messages.
func (t *NATSTrigger) FunctionNames() []string { return []string{t.Spec.FunctionRef.Name} }

// CommonStatus returns the part of the status that is common to all triggers.
func (t *NATSTrigger) CommonStatus() *TriggerStatus { return &t.Status.TriggerStatus }

// CommonSpec returns the part of the spec that is common to all stream triggers.
func (t *NATSTrigger) CommonSpec() *StreamSpec { return &t.Spec.StreamSpec }

// StreamStatus returns the part of the status that is common to all stream triggers.
func (t *NATSTrigger) StreamStatus() *StreamTriggerStatus { return &t.Status.StreamTriggerStatus }

// ConsumerName returns the name of the durable consumer or of the queue group. The separator cannot
// occur in the name of a namespace or a trigger, so no two triggers have the same default. The
// consumer pod derives the default of earlier releases of Goless from this name.
func (t *NATSTrigger) ConsumerName() string {
	if t.Spec.Consumer != "" {
		return t.Spec.Consumer
	}
	return "goless_" + t.Namespace + "_" + t.Name
}
