package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Types of the conditions of a Function.
const (
	// ConditionReady is True when the latest spec is serving and its rollout is complete, or when
	// the function is stopped (spec.replicas is 0). It stays True while the number of replicas
	// changes, including when the function sleeps. When a stopped function is started again, it is
	// False until the first replica is ready. It is derived from the other conditions.
	ConditionReady = "Ready"

	// ConditionSourceValid is True when the source parses and declares the handler.
	ConditionSourceValid = "SourceValid"

	// ConditionBuilt is True when the latest revision has been compiled, and its tests have passed
	// if they are required.
	ConditionBuilt = "Built"

	// ConditionAvailable is True when any revision serves requests, or when the function sleeps and
	// a request would wake it. It is False after a failed wake-up, until a pod is ready.
	ConditionAvailable = "Available"

	// ConditionReconciling is True while the operator or the cluster works towards Ready or towards
	// a different number of replicas. The condition is absent otherwise.
	ConditionReconciling = "Reconciling"

	// ConditionStalled is True while the function cannot become ready unless the user changes
	// something. The condition is absent otherwise.
	ConditionStalled = "Stalled"

	// ConditionDegraded is True while an optional part of the function is missing, such as its
	// PodDisruptionBudget. It does not affect the other conditions. The condition is absent
	// otherwise.
	ConditionDegraded = "Degraded"
)

// Reasons of the conditions of a Function.
const (
	// Reasons of SourceValid. InvalidSource is also a reason of Built and Ready.

	ReasonValid         = "Valid"
	ReasonInvalidSource = "InvalidSource"

	// ReasonInvalidSpec is a reason of Built and Ready.
	ReasonInvalidSpec = "InvalidSpec"

	// Reasons of Built. All except Built are also reasons of Ready. BuildFailed is not caused by the
	// source; the build is retried.

	ReasonBuilt            = "Built"
	ReasonBuilding         = "Building"
	ReasonCompileFailed    = "CompileFailed"
	ReasonBuildTimeout     = "BuildTimeout"
	ReasonBuildOutOfMemory = "BuildOutOfMemory"
	ReasonBuildFailed      = "BuildFailed"

	// ReasonTesting is the reason of Built while the tests are compiled or run, and ReasonTestsFailed
	// after they failed, see spec.build.test.

	ReasonTesting     = "Testing"
	ReasonTestsFailed = "TestsFailed"

	// Reasons of Available. Serving and Stopped are also reasons of Ready, and Stopped is also a
	// reason of Built.

	ReasonServing        = "Serving"
	ReasonNoReadyReplica = "NoReadyReplica"
	ReasonNoService      = "NoService"
	ReasonStopped        = "Stopped"

	// ReasonAsleep is the reason of Ready and Available while the function is scaled to zero
	// because it is idle, and while a request wakes it.
	ReasonAsleep = "Asleep"

	// ReasonNoActivator is the reason of Ready and Available while the function sleeps and no
	// replica of the activator receives its requests.
	ReasonNoActivator = "NoActivator"

	// ReasonWakeFailed is the reason of Ready and Available after a request could not wake the
	// function, until a pod is ready.
	ReasonWakeFailed = "WakeFailed"

	// ReasonRollingOut is the reason of Ready during a rollout.
	ReasonRollingOut = "RollingOut"

	// ReasonVerifying is the reason of Ready during a rollout in which the first new pod serves
	// beside the old ones, see spec.rollout.verify.
	ReasonVerifying = "Verifying"

	// ReasonRolledBack is the reason of Ready after the latest spec failed its verification and the
	// previous one was restored, see spec.rollout.verify.
	ReasonRolledBack = "RolledBack"

	// ReasonScaling is the reason of Reconciling while a ready function does not have the desired
	// number of replicas.
	ReasonScaling = "Scaling"

	// ReasonProgressDeadlineExceeded is the reason of Ready when a rollout made no progress for
	// spec.progressDeadlineSeconds, for example because Start does not return.
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"

	// ReasonCrashLooping is the reason of Ready when the latest revision compiled but exits
	// repeatedly.
	ReasonCrashLooping = "CrashLooping"

	// ReasonApplyFailed is the reason of Ready when a read or a write of an object fails, for example
	// because a quota or a policy rejects the write. If the Function cannot be validated, ApplyFailed
	// is also the reason of SourceValid and, until a source has been valid, of Built, which are then
	// Unknown.
	ReasonApplyFailed = "ApplyFailed"

	// ReasonDisruptionBudgetFailed is the reason of Degraded when the PodDisruptionBudget is
	// missing or out of date.
	ReasonDisruptionBudgetFailed = "DisruptionBudgetFailed"

	// ReasonNetworkPolicyFailed is the reason of Degraded when the NetworkPolicy is missing or out
	// of date.
	ReasonNetworkPolicyFailed = "NetworkPolicyFailed"

	// ReasonAutoscalerFailed is the reason of Degraded when the HorizontalPodAutoscaler is missing
	// or out of date.
	ReasonAutoscalerFailed = "AutoscalerFailed"

	// ReasonAutoscalerConflict is the reason of Degraded when a HorizontalPodAutoscaler of another
	// owner scales the Deployment of the function. In that case, the operator does not change the
	// number of replicas.
	ReasonAutoscalerConflict = "AutoscalerConflict"

	// ReasonSourceNotStored is the reason of Degraded when the ConfigMap of the source is missing
	// but not needed, because the pods run a binary of the build service.
	ReasonSourceNotStored = "SourceNotStored"

	// ReasonRevisionNotRecorded is the reason of Degraded when the ControllerRevision of the current
	// revision cannot be written, so that a rollback to it is impossible.
	ReasonRevisionNotRecorded = "RevisionNotRecorded"

	// ReasonReferenceUnreadable is the reason of Degraded when the operator cannot read a ConfigMap
	// that env, envFrom or files refers to, or a Secret that env or envFrom refers to, so changes
	// to it are not rolled out.
	ReasonReferenceUnreadable = "ReferenceUnreadable"

	// ReasonCannotSleep is the reason of Degraded when a function that may sleep stays awake
	// because the activator cannot query how long its pods have been idle.
	ReasonCannotSleep = "CannotSleep"

	// ReasonCannotScale is the reason of Degraded when the number of replicas of a function with
	// spec.scaling.requests does not change because the activator is not ready, cannot query most
	// pods, or cannot write the new number.
	ReasonCannotScale = "CannotScale"

	// ReasonCleanupFailed is the reason of Degraded when an object that the function no longer
	// needs cannot be deleted.
	ReasonCleanupFailed = "CleanupFailed"

	// ReasonNotOwned is the reason of Ready when an object with a name that the function needs
	// belongs to another owner. While such an object serves requests, Available is Unknown with the
	// same reason.
	ReasonNotOwned = "NotOwned"

	// ReasonServiceConflict is ReasonNotOwned for the Service.
	ReasonServiceConflict = "ServiceConflict"
)

// FunctionStatus is the observed state of a Function.
type FunctionStatus struct {
	// observedGeneration is the generation of the spec that this status describes. It is -1 until
	// the operator has processed the Function.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions contain the types Ready, SourceValid, Built and Available, and also Reconciling,
	// Stalled and Degraded while they are True.
	//
	// Ready has these reasons:
	//   - True: Serving, Asleep, Stopped. Ready stays True while the number of replicas changes; in
	//     that time, Reconciling is True with reason Scaling, unless the function falls asleep or
	//     wakes. When a stopped function is started, Ready is False until the first replica is
	//     ready.
	//   - False, in progress or retried: Building, Testing, RollingOut, Verifying, NoActivator,
	//     WakeFailed, ApplyFailed, BuildFailed.
	//   - False, and Stalled is True with a message about what to change: InvalidSource,
	//     InvalidSpec, CompileFailed, TestsFailed, BuildTimeout, BuildOutOfMemory, CrashLooping,
	//     ProgressDeadlineExceeded, RolledBack, NotOwned, ServiceConflict.
	//
	// Degraded means that an optional part is missing. It does not affect the other conditions. Its
	// reasons are DisruptionBudgetFailed, NetworkPolicyFailed, AutoscalerFailed,
	// AutoscalerConflict, SourceNotStored, RevisionNotRecorded, ReferenceUnreadable, CannotSleep,
	// CannotScale and CleanupFailed.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// service is the name of the Service of the function. It is empty until the Service exists.
	// +optional
	Service string `json:"service,omitempty"`

	// url is the URL of the function inside the cluster.
	// +optional
	URL string `json:"url,omitempty"`

	// address contains url in the form of Knative's Addressable duck type, so that event sources
	// can use a Function as their sink.
	// +optional
	Address *Address `json:"address,omitempty"`

	// replicas is the number of pods of the function, of all revisions.
	// +optional
	Replicas int32 `json:"replicas"`

	// readyReplicas is the number of pods that are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// replicaSummary is the number of ready and of desired replicas, such as 1/3, for "kubectl
	// get".
	// +optional
	ReplicaSummary string `json:"replicaSummary,omitempty"`

	// selector is the label selector of the pods, for autoscalers.
	// +optional
	Selector string `json:"selector,omitempty"`

	// latestRevision is the hash of the source in the latest spec of which all fields were valid.
	// It is part of the name of the ConfigMap with the source.
	// +optional
	LatestRevision string `json:"latestRevision,omitempty"`

	// readyRevision is the hash of the source that serves requests. If several serve during a
	// rollout, it is the newest of them. While the function sleeps, it is the last one that served.
	// +optional
	ReadyRevision string `json:"readyRevision,omitempty"`

	// build is the result of the latest build.
	// +optional
	Build *BuildStatus `json:"build,omitempty"`

	// currentRevision is the name of the ControllerRevision of the latest spec. It is empty while
	// the Deployment does not have the latest spec, because that spec is invalid, cannot be
	// validated, is being compiled or tested, does not compile, failed its tests or was rolled back
	// (see rollout.verify). It is also empty for a short time after the spec of a sleeping function
	// has changed: the function first starts a pod of the previous revision, so that the previous
	// revision can serve if the new one is broken.
	// +optional
	CurrentRevision string `json:"currentRevision,omitempty"`

	// revisions are the 10 newest revisions of the function, newest first. A revision is created
	// when something changes that may affect the pods: the source, another field, metadata that is
	// copied to the pods, the annotation goless.io/upgrade, a value of a ConfigMap or Secret that
	// triggers a rollout, the FunctionClass, or Goless. It is recorded in a ControllerRevision.
	// "builder rollback" returns to one of them.
	// +optional
	// +listType=map
	// +listMapKey=name
	Revisions []RevisionStatus `json:"revisions,omitempty"`
}

// MaxRevisionsInStatus is the maximum number of entries in status.revisions.
const MaxRevisionsInStatus = 10

// RevisionState is the state of a revision of a function.
type RevisionState string

// States of a revision of a function.
const (
	// RevisionStarting is the state of a revision in the Deployment that has not served yet.
	RevisionStarting RevisionState = "Starting"

	// RevisionServing is the state of the revision in the Deployment after it has served, also while
	// the function is asleep, stopped or unavailable, and of a former revision whose pods still
	// serve.
	RevisionServing RevisionState = "Serving"

	// RevisionSuperseded is the state of a revision that a later one has replaced.
	RevisionSuperseded RevisionState = "Superseded"

	// RevisionSkipped is the state of a revision that a later one has replaced before it served.
	RevisionSkipped RevisionState = "Skipped"

	// RevisionFailed is the state of a revision that could not serve.
	RevisionFailed RevisionState = "Failed"

	// RevisionRolledBack is the state of a revision that failed its verification and was replaced by
	// the previous one.
	RevisionRolledBack RevisionState = "RolledBack"
)

// RevisionStatus is the state of one revision of a function.
type RevisionStatus struct {
	// name is the name of the ControllerRevision.
	Name string `json:"name"`

	// revision is the number of the revision. It increases with each change, and a revision to which
	// the function returns gets a new number.
	Revision int64 `json:"revision"`

	// source is the hash of the source, as in latestRevision and readyRevision.
	// +optional
	Source string `json:"source,omitempty"`

	// creationTime is the time when the ControllerRevision was created.
	CreationTime metav1.Time `json:"creationTime"`

	// state is one of:
	//   - Starting: it is in the Deployment and has not served yet.
	//   - Serving: it has served and is in the Deployment, also while the function is asleep, stopped or
	//     unavailable; or it is a former revision whose pods still serve.
	//   - Superseded: a later revision has replaced it.
	//   - Skipped: a later revision has replaced it before it served.
	//   - Failed: it could not serve.
	//   - RolledBack: it failed its verification.
	State RevisionState `json:"state"`

	// reason is the reason that the condition Ready had when the revision failed or was rolled
	// back, such as CrashLooping.
	// +optional
	Reason string `json:"reason,omitempty"`
}

// Address is the address of an object that receives requests.
type Address struct {
	// url is the URL inside the cluster.
	// +optional
	URL string `json:"url,omitempty"`
}

// BuildStatus is the result of a build.
type BuildStatus struct {
	// revision is the hash of the source that was compiled, as in latestRevision. It is empty if
	// the source was rejected before it was compiled.
	// +optional
	Revision string `json:"revision,omitempty"`

	// diagnostics are the errors in the source, or the failures of its tests, with their positions in
	// it.
	// +optional
	// +listType=atomic
	Diagnostics []Diagnostic `json:"diagnostics,omitempty"`

	// warnings are the findings of go vet in a source that compiles, and the modules for which the
	// build selects a different version from the one that go.mod requires. They do not prevent a
	// rollout.
	// +optional
	// +listType=atomic
	Warnings []Diagnostic `json:"warnings,omitempty"`

	// omitted is the number of diagnostics and warnings that are not listed.
	// +optional
	Omitted int32 `json:"omitted,omitempty"`

	// output is the end of the output of the tests that failed, at most 2048 bytes.
	// +optional
	Output string `json:"output,omitempty"`

	// duration is the duration of the build, such as 412ms.
	// +optional
	Duration string `json:"duration,omitempty"`

	// toolchain is the Go release that compiled the source, such as go1.27.4.
	// +optional
	Toolchain string `json:"toolchain,omitempty"`
}

// Diagnostic is one error or warning in the source and its position.
type Diagnostic struct {
	// file is the name of the source file: its name in the archive, or handler.go if the source is
	// a single file.
	File string `json:"file"`

	// line is the line in the file, starting at 1. It is 0 if the error has no position.
	// +optional
	Line int32 `json:"line,omitempty"`

	// column is the byte offset in the line, starting at 1. It is 0 if it is unknown.
	// +optional
	Column int32 `json:"column,omitempty"`

	// message describes the error.
	Message string `json:"message"`
}
