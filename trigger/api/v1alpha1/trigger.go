package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// TriggerLabel is on everything that belongs to a trigger: the trigger's name.
	TriggerLabel = "goless.io/trigger"

	// KindLabel is beside it: the trigger's kind.
	KindLabel = "goless.io/trigger-kind"
)

// Types of the conditions of a trigger.
const (
	// ConditionReady is true when the trigger is set up and its Function can be called.
	ConditionReady = "Ready"

	// ConditionDelivered reports how the last delivery ended. Before the first one it is missing, or
	// unknown for a trigger that consumes a stream.
	ConditionDelivered = "Delivered"

	// ConditionReconciling is there, and true, while the trigger is not ready and may become
	// so without a change of it.
	ConditionReconciling = "Reconciling"

	// ConditionStalled is there, and true, while only a change of the trigger, or of what is
	// in its way, can help.
	ConditionStalled = "Stalled"
)

// Reasons of the condition Ready.
const (
	// ReasonReady is the reason of a trigger that is ready.
	ReasonReady = "Ready"

	// ReasonInvalidSpec means that the message names a field with a mistake.
	ReasonInvalidSpec = "InvalidSpec"

	// ReasonNotOwned means that an object whose name the trigger needs belongs to another owner.
	ReasonNotOwned = "NotOwned"

	// ReasonApplyFailed means that the API server refuses what the trigger needs, or the pod of
	// a CronTrigger's Job, for a quota or a policy for example. It is tried again.
	ReasonApplyFailed = "ApplyFailed"

	// ReasonFunctionNotFound means that there is no Function of that name in the namespace.
	ReasonFunctionNotFound = "FunctionNotFound"

	// ReasonFunctionNotReachable means that the Function has no Service yet.
	ReasonFunctionNotReachable = "FunctionNotReachable"

	// ReasonFunctionStopped means that spec.replicas of the Function is 0.
	ReasonFunctionStopped = "FunctionStopped"

	// ReasonFunctionUnavailable means that no revision of the Function answers requests.
	ReasonFunctionUnavailable = "FunctionUnavailable"
)

// Reasons of the condition Delivered.
const (
	ReasonDelivered = "Delivered"
	ReasonFailed    = "Failed"
	ReasonMissed    = "Missed"
)

// Trigger is what all kinds of triggers have in common.
//
// +kubebuilder:object:generate=false
type Trigger interface {
	client.Object

	// TriggerKind is the name of the kind.
	TriggerKind() string

	// FunctionNames are those of the Functions that the trigger calls.
	FunctionNames() []string

	// CommonStatus is the part of the status that all kinds have.
	CommonStatus() *TriggerStatus
}

// FunctionReference names a Function in the namespace of the trigger.
type FunctionReference struct {
	// name of the Function. It may be created later than the trigger.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
}

// TriggerStatus is the part of the status that all kinds of triggers have.
type TriggerStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions say what holds: Ready; Delivered, which reports how the last delivery ended; and
	// Reconciling or Stalled while the trigger is not ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
