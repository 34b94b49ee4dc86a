package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Types of the conditions of a Function.
const (
	// ConditionReady is true when the latest spec is what serves and its rollout is
	// complete, or when nothing runs because spec.replicas is 0. It stays true while the
	// number of replicas changes, down to none when the function sleeps, and becomes true
	// again with the first replica after spec.replicas was 0. It follows from the other
	// conditions.
	ConditionReady = "Ready"

	// ConditionSourceValid is true when the source parses and has the handler.
	ConditionSourceValid = "SourceValid"

	// ConditionBuilt is true when the latest revision has compiled.
	ConditionBuilt = "Built"

	// ConditionAvailable is true when some revision answers requests, whichever
	// it is, or sleeps and answers the next request. It is false after a request could not
	// wake the function, until a pod is ready.
	ConditionAvailable = "Available"

	// ConditionReconciling is there, and true, while the operator or the
	// cluster is working towards Ready, or towards another number of replicas.
	ConditionReconciling = "Reconciling"

	// ConditionStalled is there, and true, while only the user can help.
	ConditionStalled = "Stalled"

	// ConditionDegraded is there, and true, while the function serves as it should but
	// lacks something that it can do without. The other conditions do not depend on it.
	ConditionDegraded = "Degraded"
)

// Reasons of the conditions of a Function.
const (
	ReasonValid         = "Valid"
	ReasonInvalidSource = "InvalidSource"
	ReasonInvalidSpec   = "InvalidSpec"

	ReasonBuilt            = "Built"
	ReasonBuilding         = "Building"
	ReasonCompileFailed    = "CompileFailed"
	ReasonBuildTimeout     = "BuildTimeout"
	ReasonBuildOutOfMemory = "BuildOutOfMemory"
	ReasonBuildFailed      = "BuildFailed"

	ReasonServing        = "Serving"
	ReasonNoReadyReplica = "NoReadyReplica"
	ReasonNoService      = "NoService"
	ReasonStopped        = "Stopped"

	// ReasonAsleep is the reason of Ready and Available while the function has no pods
	// because nobody calls it, and while the next request wakes it.
	ReasonAsleep = "Asleep"

	// ReasonNoActivator is the reason of Ready and Available while the function sleeps and no
	// replica of the activator takes its requests.
	ReasonNoActivator = "NoActivator"

	// ReasonWakeFailed is the reason of Ready and Available after a request could not wake the
	// function, until a pod is ready.
	ReasonWakeFailed = "WakeFailed"

	// ReasonRollingOut is Ready's reason while pods come and go.
	ReasonRollingOut = "RollingOut"

	// ReasonScaling is Reconciling's reason while a ready function does not have as many
	// replicas as it should.
	ReasonScaling = "Scaling"

	// ReasonProgressDeadlineExceeded is Ready's reason when a rollout has not come any further
	// for as long as its Deployment waits, ten minutes by default: when Start does not return,
	// for example.
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"

	// ReasonCrashLooping is Ready's reason when the latest revision ends again
	// and again after it has compiled.
	ReasonCrashLooping = "CrashLooping"

	// ReasonApplyFailed is Ready's reason when the API server refuses what the
	// function needs, for a quota or a policy for example.
	ReasonApplyFailed = "ApplyFailed"

	// ReasonDisruptionBudgetFailed is Degraded's reason when the PodDisruptionBudget is
	// missing or not as it should be.
	ReasonDisruptionBudgetFailed = "DisruptionBudgetFailed"

	// ReasonNetworkPolicyFailed is Degraded's reason when the NetworkPolicy is missing or
	// not as it should be.
	ReasonNetworkPolicyFailed = "NetworkPolicyFailed"

	// ReasonAutoscalerFailed is Degraded's reason when the HorizontalPodAutoscaler is missing
	// or not as it should be.
	ReasonAutoscalerFailed = "AutoscalerFailed"

	// ReasonAutoscalerConflict is Degraded's reason when a HorizontalPodAutoscaler of another owner
	// scales the Deployment of the function. The number of replicas is left to it.
	ReasonAutoscalerConflict = "AutoscalerConflict"

	// ReasonSourceNotStored is Degraded's reason when the ConfigMap of the source is missing,
	// and the pods run a binary of the build service, for which they do not need it.
	ReasonSourceNotStored = "SourceNotStored"

	// ReasonReferenceUnreadable is Degraded's reason when a ConfigMap or Secret that the
	// environment comes from cannot be read, so that its changes are not followed.
	ReasonReferenceUnreadable = "ReferenceUnreadable"

	// ReasonCannotSleep is Degraded's reason when the activator cannot ask the pods of a function
	// that may sleep for how long they have been idle, so that the function stays awake.
	ReasonCannotSleep = "CannotSleep"

	// ReasonCleanupFailed is Degraded's reason when what the function does not need any
	// more cannot be removed.
	ReasonCleanupFailed = "CleanupFailed"

	// ReasonNotOwned is Ready's reason when an object whose name the function
	// needs belongs to somebody else, and that of Available, which is unknown then,
	// while such an object answers requests.
	ReasonNotOwned = "NotOwned"

	// ReasonServiceConflict is ReasonNotOwned for the Service.
	ReasonServiceConflict = "ServiceConflict"
)

// FunctionStatus is what the operator last saw in the cluster.
type FunctionStatus struct {
	// observedGeneration is the generation of the spec that this status speaks
	// of; -1 until the operator has seen the Function.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions say what holds: Ready, SourceValid, Built and Available, and
	// Reconciling, Stalled or Degraded while they are true. Ready is true with the
	// reasons Serving, Asleep and Stopped, and stays so while the number of replicas
	// changes: Reconciling is true then, with the reason Scaling, unless it falls
	// asleep or wakes. Ready is false with Building, RollingOut, NoActivator, WakeFailed
	// and ApplyFailed, which pass or are tried again, as BuildFailed is; and with InvalidSource, InvalidSpec,
	// CompileFailed, BuildTimeout, BuildOutOfMemory, CrashLooping,
	// ProgressDeadlineExceeded, NotOwned and ServiceConflict, where Stalled is true and
	// the message says what to change. Degraded is about what the function can do
	// without, with the reasons DisruptionBudgetFailed, NetworkPolicyFailed,
	// AutoscalerFailed, AutoscalerConflict, SourceNotStored, ReferenceUnreadable,
	// CannotSleep and CleanupFailed.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// service is the name of the Service that leads to the function; empty until
	// there is one.
	// +optional
	Service string `json:"service,omitempty"`

	// url is where the function answers inside the cluster.
	// +optional
	URL string `json:"url,omitempty"`

	// address is url in the form of Knative's addressable duck type, so that what sends
	// events there can name a Function as their destination.
	// +optional
	Address *Address `json:"address,omitempty"`

	// replicas is how many pods of the function there are, of all revisions.
	// +optional
	Replicas int32 `json:"replicas"`

	// readyReplicas is how many of them answer requests.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// replicaSummary is how many replicas answer requests and how many there should
	// be, such as 1/3, for kubectl get.
	// +optional
	ReplicaSummary string `json:"replicaSummary,omitempty"`

	// selector selects the function's pods, for autoscalers.
	// +optional
	Selector string `json:"selector,omitempty"`

	// latestRevision is the revision of the latest valid source: the hash that
	// its ConfigMap is named by.
	// +optional
	LatestRevision string `json:"latestRevision,omitempty"`

	// readyRevision is the revision that answers requests; the newest one while
	// two of them do. While the function sleeps, it is the last one that did.
	// +optional
	ReadyRevision string `json:"readyRevision,omitempty"`

	// build is the outcome of the latest compile.
	// +optional
	Build *BuildStatus `json:"build,omitempty"`
}

// Address is where an object answers requests.
type Address struct {
	// url is where it answers inside the cluster.
	// +optional
	URL string `json:"url,omitempty"`
}

// BuildStatus is the outcome of a compile.
type BuildStatus struct {
	// revision is what was compiled; empty when the source was refused before.
	// +optional
	Revision string `json:"revision,omitempty"`

	// diagnostics are the mistakes in the source, in its own lines.
	// +optional
	// +listType=atomic
	Diagnostics []Diagnostic `json:"diagnostics,omitempty"`

	// warnings are what go vet finds in a source that compiles, and versions that its go.mod
	// requires and that it does not get. They stop nothing.
	// +optional
	// +listType=atomic
	Warnings []Diagnostic `json:"warnings,omitempty"`

	// omitted counts the diagnostics that were left out.
	// +optional
	Omitted int32 `json:"omitted,omitempty"`

	// duration is how long the build took, for example 412ms.
	// +optional
	Duration string `json:"duration,omitempty"`

	// toolchain is the Go release that compiled, for example go1.27.4.
	// +optional
	Toolchain string `json:"toolchain,omitempty"`
}

// Diagnostic is one mistake in the source and its place.
type Diagnostic struct {
	// file is the name of the source file: in the archive, or handler.go where
	// the source is one file.
	File string `json:"file"`

	// line is counted from 1, in that file; 0 when the mistake has no place.
	// +optional
	Line int32 `json:"line,omitempty"`

	// column is counted in bytes from 1; 0 when it is not known.
	// +optional
	Column int32 `json:"column,omitempty"`

	// message says what is wrong.
	Message string `json:"message"`
}
