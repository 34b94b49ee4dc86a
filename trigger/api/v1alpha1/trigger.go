package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// TriggerLabel is the label that contains the name of the trigger on all objects that belong to
	// it.
	TriggerLabel = "goless.io/trigger"

	// KindLabel is the label that contains the kind of the trigger on all objects that belong to
	// it.
	KindLabel = "goless.io/trigger-kind"
)

// Types of the conditions of a trigger.
const (
	// ConditionReady is True when the trigger is set up and its Function can be called.
	ConditionReady = "Ready"

	// ConditionDelivered reports the outcome of the last delivery. An HTTPTrigger does not have it.
	// Before the first delivery, it is absent for a CronTrigger and Unknown for a trigger that
	// consumes a stream.
	ConditionDelivered = "Delivered"

	// ConditionReconciling is True while the trigger is not ready and can become ready without a
	// change to it. The condition is absent otherwise.
	ConditionReconciling = "Reconciling"

	// ConditionStalled is True while the trigger cannot become ready unless the user changes the
	// trigger or something in the cluster. The condition is absent otherwise.
	ConditionStalled = "Stalled"
)

// Reasons of the condition Ready.
const (
	// ReasonReady is the reason of Ready while it is True.
	ReasonReady = "Ready"

	// ReasonInvalidSpec means that the spec is invalid. The message names the field.
	ReasonInvalidSpec = "InvalidSpec"

	// ReasonNotOwned means that an object with a name that the trigger needs exists, but was not
	// created for the trigger.
	ReasonNotOwned = "NotOwned"

	// ReasonApplyFailed means that the API server rejects an object of the trigger, or the pod of a
	// CronTrigger's Job, for example because of a quota or a policy. The request is retried.
	ReasonApplyFailed = "ApplyFailed"

	// ReasonFunctionNotFound means that the Function does not exist in the namespace of the
	// trigger.
	ReasonFunctionNotFound = "FunctionNotFound"

	// ReasonFunctionNotReachable means that the Function has no Service yet.
	ReasonFunctionNotReachable = "FunctionNotReachable"

	// ReasonFunctionStopped means that spec.replicas of the Function is 0.
	ReasonFunctionStopped = "FunctionStopped"

	// ReasonFunctionUnavailable means that no revision of the Function serves requests.
	ReasonFunctionUnavailable = "FunctionUnavailable"
)

// Reasons of the condition Delivered.
const (
	// ReasonDelivered means that the function has accepted the last call or event.
	ReasonDelivered = "Delivered"

	// ReasonFailed means that the last call of a CronTrigger failed.
	ReasonFailed = "Failed"

	// ReasonMissed means that no call was made for a scheduled time of a CronTrigger.
	ReasonMissed = "Missed"
)

// Trigger is the interface of all kinds of triggers.
//
// +kubebuilder:object:generate=false
type Trigger interface {
	client.Object

	// TriggerKind returns the kind of the trigger.
	TriggerKind() string

	// FunctionNames returns the names of the Functions that the trigger calls.
	FunctionNames() []string

	// CommonStatus returns the part of the status that is common to all triggers.
	CommonStatus() *TriggerStatus
}

// FunctionReference refers to a Function in the namespace of the trigger.
type FunctionReference struct {
	// name is the name of the Function. The Function may be created after the trigger.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
}

// TriggerStatus is the part of the status that is common to all triggers.
type TriggerStatus struct {
	// observedGeneration is the generation of the spec that this status describes. It is -1 until
	// the trigger has been processed.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions contain the type Ready, and Reconciling or Stalled while the trigger is not ready.
	// Triggers that deliver events or calls (all except HTTPTrigger) also have Delivered: the
	// outcome of the last delivery, or that a call was missed, that events are blocked, or that the
	// outcome is unknown.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
