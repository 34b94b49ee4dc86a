package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// KafkaTrigger calls a Function with the records of a topic of Kafka. It becomes the Deployment
// NAME-trigger, whose pod is a member of a consumer group.
//
// Each record is delivered at least once: its offset is committed when the function has answered
// with 2xx, or when the dead letter has it. Records of the same partition are delivered one after
// the other.
//
// A record is a CloudEvent of the type io.goless.kafka.record in the binary mode of HTTP, with
// its headers as headers of the request, its key in Ce-Partitionkey, in base64 where that is no
// text, and where it comes from in Ce-Kafkatopic, Ce-Kafkapartition and Ce-Kafkaoffset. The header
// Ce-Id is TOPIC-TOPICID-PARTITION-OFFSET, and so is the same for each try, and another one after the
// topic was deleted and recreated. Brokers before Kafka 3.1 have no topic ids: there Ce-Id is
// TOPIC-PARTITION-OFFSET. With spec.batch a request has
// records of the same partition, and of their headers only Content-Type.
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

	// spec is which records go to which Function.
	// +required
	Spec KafkaTriggerSpec `json:"spec"`

	// status is what was last seen in the cluster.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status KafkaTriggerStatus `json:"status,omitzero"`
}

// KafkaTriggerSpec is which records go to which Function.
//
// +kubebuilder:validation:XValidation:rule="!has(self.deadLetter) || self.deadLetter != self.topic",message="deadLetter must be another topic than topic: what goes there would come back"
// +kubebuilder:validation:XValidation:rule="!has(self.authentication) || self.authentication.mechanism != 'PLAIN' || has(self.tls) || has(self.authentication.insecure) && self.authentication.insecure",message="authentication.mechanism PLAIN sends the password unencrypted without tls: set tls, use SCRAM-SHA-512, or set authentication.insecure"
type KafkaTriggerSpec struct {
	StreamSpec `json:",inline"`

	// brokers are addresses, as HOST:PORT, of some brokers of the cluster, by which the others
	// are found.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Brokers []KafkaBroker `json:"brokers"`

	// topic that has the records. It must exist.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=249
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9._-]+$`
	Topic string `json:"topic"`

	// consumerGroup is the name of the consumer group. Default: goless_NAMESPACE_NAME of the
	// trigger, or goless-NAMESPACE-NAME where only that group has committed offsets of the topic.
	// Triggers of several clusters on the same brokers need different names. A group that has
	// committed nothing begins with the oldest record of the topic. The group stays when the
	// trigger is deleted. Other clients may be members of it, with the assignment strategy range,
	// roundrobin or cooperative-sticky; they have some of the partitions then.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	ConsumerGroup string `json:"consumerGroup,omitempty"`

	// deadLetter is the topic that gets the records which the function does not take, with
	// their keys and headers, and the headers Goless-Reason, Goless-Source and Goless-Id. It must exist.
	// A record that is larger than the topic allows is written without its value, and if that is
	// not enough without its headers and then its key; the header Goless-Truncated has the number
	// of bytes that were left out. Without deadLetter, onExhausted holds.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=249
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9._-]+$`
	DeadLetter string `json:"deadLetter,omitempty"`

	// authentication is who the trigger is to the brokers, by SASL; nobody, or whom the
	// certificate of tls.secretName names, when left out.
	// +optional
	Authentication *KafkaAuthentication `json:"authentication,omitempty"`

	// tls encrypts the connections, and says how the brokers are verified; {} is for public
	// certificates. Without tls nothing is encrypted.
	// +optional
	TLS *StreamTLS `json:"tls,omitempty"`
}

// KafkaBroker is the address of a broker, as HOST:PORT.
//
// +kubebuilder:validation:MaxLength=512
// +kubebuilder:validation:Pattern=`^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}$`
type KafkaBroker string

// KafkaAuthentication is who a trigger is to the brokers, by SASL.
type KafkaAuthentication struct {
	// mechanism is how the password is proven: SCRAM-SHA-256, SCRAM-SHA-512, or PLAIN, which
	// sends the password itself, and so needs spec.tls or insecure.
	// +required
	Mechanism KafkaMechanism `json:"mechanism"`

	// insecure allows PLAIN without spec.tls: the password can be read on the network. Default:
	// false.
	// +optional
	Insecure bool `json:"insecure,omitempty"`

	// user is the name of the user.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	User string `json:"user"`

	// password of the user.
	// +required
	Password SecretKey `json:"password"`
}

// KafkaMechanism is a mechanism of SASL.
//
// +kubebuilder:validation:Enum=PLAIN;SCRAM-SHA-256;SCRAM-SHA-512
type KafkaMechanism string

// The mechanisms of SASL.
const (
	KafkaPlain       KafkaMechanism = "PLAIN"
	KafkaScramSHA256 KafkaMechanism = "SCRAM-SHA-256"
	KafkaScramSHA512 KafkaMechanism = "SCRAM-SHA-512"
)

// KafkaTriggerStatus is what was last seen in the cluster.
type KafkaTriggerStatus struct {
	StreamTriggerStatus `json:",inline"`
}

// KafkaTriggerList is a list of KafkaTriggers.
//
// +kubebuilder:object:root=true
type KafkaTriggerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the KafkaTriggers.
	Items []KafkaTrigger `json:"items"`
}

// TriggerKind is KafkaTrigger.
func (*KafkaTrigger) TriggerKind() string { return "KafkaTrigger" }

// FunctionNames has the Function that gets the records.
func (t *KafkaTrigger) FunctionNames() []string { return []string{t.Spec.FunctionRef.Name} }

// CommonStatus is the part of the status that all kinds have.
func (t *KafkaTrigger) CommonStatus() *TriggerStatus { return &t.Status.TriggerStatus }

// CommonSpec is the part of the spec that all kinds have which consume a stream.
func (t *KafkaTrigger) CommonSpec() *StreamSpec { return &t.Spec.StreamSpec }

// StreamStatus is the part of the status that all kinds have which consume a stream.
func (t *KafkaTrigger) StreamStatus() *StreamTriggerStatus { return &t.Status.StreamTriggerStatus }

// GroupNames returns the name of the consumer group, and by default the former default name, which is
// kept where that group has committed offsets. A former name can be that of two triggers: a namespace
// and a name may have a '-', but no '_'.
func (t *KafkaTrigger) GroupNames() (name, former string) {
	if t.Spec.ConsumerGroup != "" {
		return t.Spec.ConsumerGroup, ""
	}
	return "goless_" + t.Namespace + "_" + t.Name, "goless-" + t.Namespace + "-" + t.Name
}
