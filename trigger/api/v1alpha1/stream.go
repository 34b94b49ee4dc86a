package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
)

// Reasons of the condition Ready of a stream trigger.
const (
	// ReasonConsumerNotReady means that the consumer pod cannot be created, has not started, or
	// restarts repeatedly.
	ReasonConsumerNotReady = "ConsumerNotReady"

	// ReasonNotConnected means that the consumer pod receives no events: it cannot reach the
	// servers, they reject it, or a Secret is missing.
	ReasonNotConnected = "NotConnected"
)

// Reasons of the condition Delivered of a stream trigger. The condition is True when the function
// has accepted the last event and no event is blocked.
const (
	// ReasonNoEvents means that no delivery has finished yet. Delivered is Unknown.
	ReasonNoEvents = "NoEvents"

	// ReasonDeadLettered means that the last event was written to the dead-letter topic or subject.
	// Delivered is False, and Unknown after an hour without another event.
	ReasonDeadLettered = "DeadLettered"

	// ReasonDropped means that the last event was dropped because of onExhausted: Drop. Delivered
	// is False, and Unknown after an hour without another event.
	ReasonDropped = "Dropped"

	// ReasonConsumerNotReachable means that goless-triggers cannot query the consumer pod for the
	// outcome of deliveries, for example because a NetworkPolicy denies connections to its
	// port 9090. Delivered is Unknown.
	ReasonConsumerNotReachable = "ConsumerNotReachable"

	// ReasonBlocked means that later events wait for an event that is not delivered, for one of
	// these reasons:
	//   - The attempts to deliver the event are exhausted. It is retried every 30 to 60 seconds until
	//     the function accepts it.
	//   - The function has not received the event for a minute, because the function does not
	//     respond or is busy.
	//   - Messages that NATS servers have sent did not arrive, and events have waited for them for
	//     more than a minute.
	ReasonBlocked = "Blocked"

	// ReasonDeadLetterFailed means that an event cannot be written to the dead-letter topic or
	// subject. Later events wait.
	ReasonDeadLetterFailed = "DeadLetterFailed"
)

// Reasons of the condition Ready of a stream trigger with spec.scale.
const (
	// ReasonScaleConflict means that an older trigger scales the Function, and only one trigger can.
	ReasonScaleConflict = "ScaleConflict"

	// ReasonScaleNotReady means that KEDA does not scale the Function. Events are delivered while
	// the Function has replicas.
	ReasonScaleNotReady = "ScaleNotReady"
)

// StreamTrigger is the interface of stream triggers: the triggers that consume a stream.
//
// +kubebuilder:object:generate=false
type StreamTrigger interface {
	Trigger

	// CommonSpec returns the part of the spec that is common to all stream triggers.
	CommonSpec() *StreamSpec

	// StreamStatus returns the part of the status that is common to all stream triggers.
	StreamStatus() *StreamTriggerStatus
}

// StreamTriggerStatus is the part of the status that is common to all stream triggers.
type StreamTriggerStatus struct {
	TriggerStatus `json:",inline"`

	// lastDelivery is the outcome of the last delivery. It is updated within about a minute after
	// the outcome has changed, and every 10 minutes while the outcome stays the same.
	// +optional
	LastDelivery *StreamDelivery `json:"lastDelivery,omitempty"`

	// partitions is the last known number of partitions of the topic of a KafkaTrigger.
	// +optional
	Partitions int32 `json:"partitions,omitempty"`
}

// StreamDelivery is the outcome of a delivery.
type StreamDelivery struct {
	// outcome is one of:
	//   - Delivered: the function has accepted the event.
	//   - DeadLettered: the event was written to the dead-letter topic or subject.
	//   - Dropped: the event was discarded.
	// +required
	Outcome string `json:"outcome"`

	// time is the time when the delivery finished.
	// +required
	Time metav1.Time `json:"time"`
}

// StreamSpec is the part of the spec that is common to all stream triggers.
type StreamSpec struct {
	// functionRef is the Function that receives the events. While it does not exist or has no
	// Service, the trigger has no pod. While it is stopped, the pod runs and retries the events
	// until the function is started; these attempts are not counted.
	// +required
	FunctionRef FunctionReference `json:"functionRef"`

	// path is the path of the requests, optionally with a query. Default: /. It must begin with /.
	// Spaces, '#' and characters that are not printable ASCII must be percent-encoded. Maximum:
	// 2048 characters.
	// +optional
	// +kubebuilder:default="/"
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.matches('^/[!-~]*$') && !self.contains('#')",message="path must begin with '/'; spaces, '#' and characters that are not printable ASCII must be percent-encoded"
	Path string `json:"path,omitempty"`

	// maxAttempts is the maximum number of attempts to deliver an event. Default: 10; the delays
	// between them add up to 1.5 to 3 minutes. Range: 1 to 1000.
	//
	// An attempt is not counted if the request does not reach the function, because there is no
	// connection, the function cannot be woken, or its concurrency limit is reached. If the function rejects an
	// event, with any status except 2xx, 404, 408, 409, 429 and 5xx, the remaining attempts are
	// skipped, and deadLetter or onExhausted applies.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxAttempts int32 `json:"maxAttempts,omitempty"`

	// onExhausted determines what happens to an event whose attempts are exhausted or that the
	// function rejects. It applies only if deadLetter is not set. Default: Block.
	//   - Block retries the event every 30 to 60 seconds, or later if Retry-After requests it, until
	//     the function accepts it. Later events of the same partition (Kafka) or subject (NATS)
	//     wait. With batch, a NATSTrigger assigns each subject by a hash to one of N groups, where N
	//     is the value of concurrency, and the later events of all subjects in the group of the
	//     event wait.
	//   - Drop discards the event.
	// +optional
	// +kubebuilder:default=Block
	// +kubebuilder:validation:Enum=Block;Drop
	OnExhausted OnExhausted `json:"onExhausted,omitempty"`

	// concurrency is the maximum number of concurrent requests. Default: 16. Range: 1 to 256. Events
	// of the same partition (Kafka) or subject (NATS) are always delivered one after the other.
	// +optional
	// +kubebuilder:default=16
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	Concurrency int32 `json:"concurrency,omitempty"`

	// batch sends several events in one request, in their order, as CloudEvents over HTTP in
	// batched content mode. Default: none (each request contains one event). The response applies
	// to all events of a batch: they are accepted, retried, dropped or written to deadLetter
	// together.
	// +optional
	Batch *StreamBatch `json:"batch,omitempty"`

	// resources are the resource requests and limits of the consumer container. A change replaces
	// the pod. Defaults:
	//   - requests: cpu 10m, memory 32Mi, ephemeral-storage 1Mi
	//   - limits: memory 256Mi, ephemeral-storage 16Mi; cpu has no limit
	// +optional
	Resources *v1beta1.Resources `json:"resources,omitempty"`

	// scale creates a ScaledObject of KEDA, which sets the replicas of the Function according to
	// the number of waiting events. It requires KEDA and a Function without spec.scaling. Only one
	// trigger can scale a Function: if several triggers have scale, the oldest one does. Default:
	// none.
	// +optional
	Scale *StreamScale `json:"scale,omitempty"`
}

// StreamBatch configures the batches of events.
type StreamBatch struct {
	// size is the maximum number of events in one request. Range: 1 to 1000. A request contains the
	// events that are waiting when it is created, up to about 1 MiB in total. A larger event is
	// sent alone. The trigger does not wait for more events.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Size int32 `json:"size"`
}

// OnExhausted is what happens to an event that cannot be delivered.
type OnExhausted string

const (
	// Block retries the event, and later events wait.
	Block OnExhausted = "Block"

	// Drop discards the event.
	Drop OnExhausted = "Drop"
)

// StreamScale configures how a Function is scaled by the number of waiting events.
//
// +kubebuilder:validation:XValidation:rule="self.max >= self.min",message="max must not be less than min"
type StreamScale struct {
	// min is the minimum number of replicas. Default: 1. Range: 0 to 1000. With 0, spec.replicas of
	// the Function is set to 0 while no events are waiting: it is stopped, and other requests do
	// not wake it.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Min *int32 `json:"min,omitempty"`

	// max is the maximum number of replicas. Range: 1 to 1000; it must not be less than min. The
	// effective maximum is the smallest of max, spec.concurrency of the trigger and, for a
	// KafkaTrigger, the number of partitions of the topic, because more replicas would receive no
	// requests. It is never less than min. If it differs from max, the message of the condition
	// Ready reports it.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Max int32 `json:"max"`

	// lagPerReplica is the target number of waiting events for each replica. Default: 100. Minimum:
	// 1.
	// +optional
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=1
	LagPerReplica int32 `json:"lagPerReplica,omitempty"`
}

// StreamTLS configures the verification of servers and the client certificate of the trigger.
type StreamTLS struct {
	// ca selects the CA certificates of the servers, in PEM, in a Secret in the namespace of the
	// trigger. Default: the public CA certificates.
	// +optional
	CA *SecretKey `json:"ca,omitempty"`

	// secretName is the name of a Secret of type kubernetes.io/tls in the namespace of the trigger.
	// It contains the client certificate and its key. Default: none.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName,omitempty"`
}

// SecretKey refers to a value in a Secret in the namespace of the trigger. The Secret may be
// created after the trigger. A change of the value applies to new connections.
type SecretKey struct {
	// name is the name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// key is the key in the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
}
