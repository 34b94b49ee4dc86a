package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// KafkaTrigger calls a Function with the records of a Kafka topic. It creates the Deployment
// NAME-trigger, whose pod is a member of a consumer group.
//
// Each record is delivered at least once: its offset is committed when the function has responded
// with 2xx, or when the record is stored in the dead-letter topic or dropped. Records of the same
// partition are delivered one after the other.
//
// A record is sent as a CloudEvent of type io.goless.kafka.record, over HTTP in binary content
// mode:
//   - Ce-Id is TOPIC-TOPICID-PARTITION-OFFSET. It is the same for all attempts, and differs after
//     the topic is deleted and recreated. Brokers before Kafka 3.1 do not send topic IDs with
//     records; with these brokers, Ce-Id is TOPIC-PARTITION-OFFSET.
//   - Ce-Partitionkey is the key of the record. Ce-Kafkakeyencoding is text, or base64 if the key
//     is not valid UTF-8.
//   - Ce-Kafkatopic, Ce-Kafkapartition and Ce-Kafkaoffset are the origin of the record.
//   - Ce-Kafkatombstone is true if the record has no value.
//   - The headers of the record are sent too, except invalid headers, headers of the connection
//     such as Host, and headers that begin with ce- or ce_. If attributes and headers exceed 12 KiB
//     in total, some are omitted, and Ce-Golessomitted contains their number, such as "0
//     attributes, 3 headers".
//
// A record that is itself a CloudEvent keeps its own attributes, such as Ce-Id and Ce-Type. Its
// attribute golessid (Ce-Golessid) contains the ID in the format above.
//
// With spec.batch, a request contains several records of the same partition in batched content
// mode. Of their headers, only Content-Type is sent, as the attribute datacontenttype.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=goless
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Delivered",type=string,JSONPath=`.status.conditions[?(@.type=="Delivered")].status`
// +kubebuilder:printcolumn:name="Function",type=string,JSONPath=`.spec.functionRef.name`
// +kubebuilder:printcolumn:name="Topic",type=string,JSONPath=`.spec.topic`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && self.metadata.name.size() <= 52",message="metadata.name must be a DNS label of at most 52 lower-case letters, digits and '-', and begin with a letter: the Deployment NAME-trigger is named after it"
type KafkaTrigger struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the desired state. A change replaces the pod, except for a change of scale or
	// authentication.insecure. A change of the timeout, the Service or the port of the Function
	// also replaces the pod.
	// +required
	Spec KafkaTriggerSpec `json:"spec"`

	// status is the state that was last observed.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status KafkaTriggerStatus `json:"status,omitzero"`
}

// KafkaTriggerSpec is the desired state of a KafkaTrigger.
//
// +kubebuilder:validation:XValidation:rule="!has(self.deadLetter) || self.deadLetter != self.topic",message="deadLetter must differ from topic: dead letters would be consumed again"
// +kubebuilder:validation:XValidation:rule="!has(self.authentication) || self.authentication.mechanism != 'PLAIN' || has(self.tls) || has(self.authentication.insecure) && self.authentication.insecure",message="authentication.mechanism PLAIN sends the password unencrypted without tls: set tls, use SCRAM-SHA-512, or set authentication.insecure"
type KafkaTriggerSpec struct {
	StreamSpec `json:",inline"`

	// brokers are the addresses (HOST:PORT) of some brokers of the cluster. The other brokers are
	// discovered. Maximum: 16.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Brokers []KafkaBroker `json:"brokers"`

	// topic is the name of the topic to consume. It must exist. Maximum: 249 characters: letters,
	// digits, '.', '_' and '-'.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=249
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9._-]+$`
	Topic string `json:"topic"`

	// consumerGroup is the name of the consumer group. Default: goless_NAMESPACE_NAME, with the
	// namespace and the name of the trigger. If triggers in several clusters use the same brokers,
	// set a different group name in each cluster. Maximum: 255 characters.
	//
	// The default of earlier releases of Goless, goless-NAMESPACE-NAME, is used instead of
	// goless_NAMESPACE_NAME if:
	//   - the trigger is authorized to read the earlier group but not the new one, or
	//   - the earlier group has committed offsets for the topic and the new group has none. As an
	//     exception, the new group is used if the metadata of some of these offsets names another
	//     trigger, and none names this one: triggers such as shop/eu-orders and shop-eu/orders had
	//     the same earlier name. Offsets that earlier releases committed name no trigger.
	//
	// A group without committed offsets begins with the oldest record of the topic. The group is
	// not deleted with the trigger. Other clients can also be members of the group, if they use the
	// assignment strategy range, roundrobin or cooperative-sticky. They receive a part of the
	// partitions.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	ConsumerGroup string `json:"consumerGroup,omitempty"`

	// deadLetter is the dead-letter topic, for records that the function does not accept. It must
	// exist and differ from topic. Default: none (onExhausted applies). Maximum: 249 characters:
	// letters, digits, '.', '_' and '-'.
	//
	// The record keeps its key and headers and has the additional headers Goless-Reason,
	// Goless-Source and Goless-Id. If it is too large for the topic, it is written without its
	// value, and if necessary without its headers and then without its key. The header
	// Goless-Truncated contains the number of omitted bytes.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=249
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9._-]+$`
	DeadLetter string `json:"deadLetter,omitempty"`

	// authentication is how the trigger authenticates to the brokers, with SASL. Default: none; a
	// client certificate in tls.secretName can identify the trigger instead.
	// +optional
	Authentication *KafkaAuthentication `json:"authentication,omitempty"`

	// tls encrypts the connections and configures how the brokers are verified. Set it to {} to
	// verify the brokers with public CA certificates. Default: none (the connections are not
	// encrypted).
	// +optional
	TLS *StreamTLS `json:"tls,omitempty"`
}

// KafkaBroker is the address of a broker (HOST:PORT).
//
// +kubebuilder:validation:MaxLength=512
// +kubebuilder:validation:Pattern=`^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}$`
type KafkaBroker string

// KafkaAuthentication is how a trigger authenticates to the brokers, with SASL.
type KafkaAuthentication struct {
	// mechanism is the SASL mechanism: SCRAM-SHA-512, SCRAM-SHA-256 or PLAIN. PLAIN sends the
	// password to the brokers and therefore requires spec.tls or insecure.
	// +required
	Mechanism KafkaMechanism `json:"mechanism"`

	// insecure allows PLAIN without spec.tls. The password can then be intercepted on the network.
	// Default: false.
	// +optional
	Insecure bool `json:"insecure,omitempty"`

	// user is the user name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	User string `json:"user"`

	// password selects the password of the user, in a Secret in the namespace of the trigger. A
	// change applies to new connections.
	// +required
	Password SecretKey `json:"password"`
}

// KafkaMechanism is a SASL mechanism.
//
// +kubebuilder:validation:Enum=PLAIN;SCRAM-SHA-256;SCRAM-SHA-512
type KafkaMechanism string

// SASL mechanisms.
const (
	KafkaPlain       KafkaMechanism = "PLAIN"
	KafkaScramSHA256 KafkaMechanism = "SCRAM-SHA-256"
	KafkaScramSHA512 KafkaMechanism = "SCRAM-SHA-512"
)

// KafkaTriggerStatus is the observed state of a KafkaTrigger.
type KafkaTriggerStatus struct {
	StreamTriggerStatus `json:",inline"`
}

// KafkaTriggerList is a list of KafkaTriggers.
//
// +kubebuilder:object:root=true
type KafkaTriggerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items is the list of KafkaTriggers.
	Items []KafkaTrigger `json:"items"`
}

// TriggerKind returns KafkaTrigger.
func (*KafkaTrigger) TriggerKind() string { return "KafkaTrigger" }

// FunctionNames returns the name of the Function that receives the records.
func (t *KafkaTrigger) FunctionNames() []string { return []string{t.Spec.FunctionRef.Name} }

// CommonStatus returns the part of the status that is common to all triggers.
func (t *KafkaTrigger) CommonStatus() *TriggerStatus { return &t.Status.TriggerStatus }

// CommonSpec returns the part of the spec that is common to all stream triggers.
func (t *KafkaTrigger) CommonSpec() *StreamSpec { return &t.Spec.StreamSpec }

// StreamStatus returns the part of the status that is common to all stream triggers.
func (t *KafkaTrigger) StreamStatus() *StreamTriggerStatus { return &t.Status.StreamTriggerStatus }

// GroupNames returns the name of the consumer group. If the name is the default, it also returns
// the default name of earlier releases of Goless, which is used instead under the conditions in the
// comment of KafkaTriggerSpec.ConsumerGroup. Two triggers can have the same former name, because
// the names of namespaces and triggers can contain '-'; they cannot contain '_'.
func (t *KafkaTrigger) GroupNames() (name, former string) {
	if t.Spec.ConsumerGroup != "" {
		return t.Spec.ConsumerGroup, ""
	}
	return "goless_" + t.Namespace + "_" + t.Name, "goless-" + t.Namespace + "-" + t.Name
}
