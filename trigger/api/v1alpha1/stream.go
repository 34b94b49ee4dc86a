package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
)

// Reasons of the condition Ready of a trigger that consumes a stream.
const (
	// ReasonConsumerNotReady means that the pod which consumes cannot be created, has not started, or
	// restarts repeatedly.
	ReasonConsumerNotReady = "ConsumerNotReady"

	// ReasonNotConnected means that the pod which consumes gets no events: it does not reach
	// the servers, they refuse it, or a Secret is missing.
	ReasonNotConnected = "NotConnected"
)

// Reasons of the condition Delivered of a trigger that consumes a stream. It is true when the
// function has taken the last event, and none is held up.
const (
	// ReasonNoEvents means that no delivery has ended yet. The condition is unknown.
	ReasonNoEvents = "NoEvents"

	// ReasonDeadLettered means that the last event went to the dead letter. The condition is unknown
	// after an hour without another event.
	ReasonDeadLettered = "DeadLettered"

	// ReasonDropped means that the last event was dropped, by onExhausted: Drop. The condition is
	// unknown after an hour without another event.
	ReasonDropped = "Dropped"

	// ReasonConsumerNotReachable means that goless-triggers cannot ask the pod which consumes how
	// deliveries end, such as when a NetworkPolicy denies its port 9090. The condition is unknown.
	ReasonConsumerNotReachable = "ConsumerNotReachable"

	// ReasonBlocked means that all tries of an event are used up, and that it is tried once
	// a minute until the function takes it; or that the function has not seen it for a minute,
	// because it does not answer or is busy. What comes after it waits.
	ReasonBlocked = "Blocked"

	// ReasonDeadLetterFailed means that the dead letter does not take an event. What comes
	// after it waits.
	ReasonDeadLetterFailed = "DeadLetterFailed"
)

// ReasonScaleConflict is a reason of the condition Ready: an older trigger scales the Function, and only
// one can.
const ReasonScaleConflict = "ScaleConflict"

// StreamTrigger is what triggers that consume a stream have in common.
//
// +kubebuilder:object:generate=false
type StreamTrigger interface {
	Trigger

	// CommonSpec is the part of the spec that all such kinds have.
	CommonSpec() *StreamSpec

	// StreamStatus is the part of the status that all such kinds have.
	StreamStatus() *StreamTriggerStatus
}

// StreamTriggerStatus is the part of the status that all triggers have which consume a stream.
type StreamTriggerStatus struct {
	TriggerStatus `json:",inline"`

	// lastDelivery is how the last delivery ended. It is updated within about a minute after the
	// outcome has changed, and every 10 minutes while it is the same.
	// +optional
	LastDelivery *StreamDelivery `json:"lastDelivery,omitempty"`

	// partitions is how many partitions the topic had when that was last known; left out where the
	// stream has none.
	// +optional
	Partitions int32 `json:"partitions,omitempty"`
}

// StreamDelivery is how a delivery ended.
type StreamDelivery struct {
	// outcome is Delivered when the function has taken the event, DeadLettered when the event went
	// to the dead letter, and Dropped when it was given up.
	// +required
	Outcome string `json:"outcome"`

	// time is when the delivery ended.
	// +required
	Time metav1.Time `json:"time"`
}

// StreamSpec is the part of the spec that all triggers have which consume a stream.
type StreamSpec struct {
	// functionRef names the Function that gets the events.
	// +required
	FunctionRef FunctionReference `json:"functionRef"`

	// path of the requests, with their query; / by default.
	// +optional
	// +kubebuilder:default="/"
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.matches('^/[!-~]*$') && !self.contains('#')",message="path must begin with '/', and what is not printable ASCII must be percent-encoded"
	Path string `json:"path,omitempty"`

	// maxAttempts is how often an event is tried; 10 by default, which with the pauses
	// between them takes two to three minutes. A request that does not reach the function,
	// because there is no connection or it is as busy as it may be, is not counted. An event that the
	// function refuses, with any status but 2xx, 404, 408, 409, 429 and 5xx, is tried once.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxAttempts int32 `json:"maxAttempts,omitempty"`

	// onExhausted is what becomes of an event whose tries are used up, or that the function
	// refuses, where there is no deadLetter: Block, the default, tries it once a minute
	// until the function takes it, and those after it wait; Drop gives it up.
	// +optional
	// +kubebuilder:default=Block
	// +kubebuilder:validation:Enum=Block;Drop
	OnExhausted OnExhausted `json:"onExhausted,omitempty"`

	// concurrency is how many requests there are at the same time; 16 by default. Events whose
	// order counts are delivered one after the other all the same.
	// +optional
	// +kubebuilder:default=16
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	Concurrency int32 `json:"concurrency,omitempty"`

	// batch lets one request have several events, in their order, as CloudEvents in the batched
	// mode of HTTP; without it each request has one. The answer is for all of them: they are
	// taken together, tried again together, and go to deadLetter together.
	// +optional
	Batch *StreamBatch `json:"batch,omitempty"`

	// resources of the container that consumes. By default it requests 10m of cpu, 32Mi of
	// memory and 1Mi of ephemeral-storage, and is limited to 256Mi of memory and 16Mi of
	// ephemeral-storage, and not in cpu. A change restarts it.
	// +optional
	Resources *v1beta1.Resources `json:"resources,omitempty"`

	// scale makes a ScaledObject of KEDA, which sets the replicas of the Function by how many
	// events wait. It needs KEDA, and a Function without spec.scaling. One trigger can scale a
	// Function: where several have scale, the oldest one does.
	// +optional
	Scale *StreamScale `json:"scale,omitempty"`
}

// StreamBatch is how many events one request has.
type StreamBatch struct {
	// size is how many events one request has at most. It has those that wait when it is made,
	// of up to 1 MiB together, and never waits for more.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Size int32 `json:"size"`
}

// OnExhausted is what becomes of an event that cannot be delivered.
type OnExhausted string

const (
	// Block holds up what comes after it.
	Block OnExhausted = "Block"

	// Drop gives it up.
	Drop OnExhausted = "Drop"
)

// StreamScale is how a Function is scaled by how many events wait.
//
// +kubebuilder:validation:XValidation:rule="self.max >= self.min",message="max must not be less than min"
type StreamScale struct {
	// min is the least number of replicas; 1 by default. With 0 the Function has none while
	// no event waits.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Min *int32 `json:"min,omitempty"`

	// max is the largest number of replicas. Where concurrency or the number of partitions of the
	// topic is less, KEDA uses that, but not less than min: the trigger sends no more requests at the same time.
	// The message of the condition Ready reports the limit.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Max int32 `json:"max"`

	// lagPerReplica is how many waiting events one replica is for; 100 by default.
	// +optional
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=1
	LagPerReplica int32 `json:"lagPerReplica,omitempty"`
}

// StreamTLS is how servers are verified, and whether they verify the trigger.
type StreamTLS struct {
	// ca has the certificates, in PEM, that those of the servers must descend from; the
	// public ones when left out.
	// +optional
	CA *SecretKey `json:"ca,omitempty"`

	// secretName is the name of a Secret of the namespace, of the type kubernetes.io/tls,
	// with the certificate and key of the trigger; none when left out.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName,omitempty"`
}

// SecretKey names a value in a Secret of the namespace of the trigger. It may be created later
// than the trigger, and changed.
type SecretKey struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// key in the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
}
