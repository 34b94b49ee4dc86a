package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CronTrigger calls a Function by the clock. It becomes a CronJob of the same name, whose
// pods make one call each.
//
// A call is a CloudEvent of the type io.goless.cron.tick in the binary mode of HTTP. It is
// tried again where there is no answer or one with the status 404, 408, 409, 429 or 5xx, with
// growing pauses, for ten minutes; any other status than 2xx ends it at once. Each try may take
// as long as the timeout of the Function says, and an hour where it has none. The header
// Ce-Id is the same for each try of the same scheduled time, and no other's. As with all
// CronJobs a scheduled time may lead to two calls, with the same id, or to none, which the
// condition Delivered tells.
//
// The outcome is what the container deliver of the pod reports when it ends. Other containers
// of the pod, such as an injected sidecar, do not matter: a Job whose container deliver has ended
// while another one runs is deleted once the status has the outcome.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=goless
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Delivered",type=string,JSONPath=`.status.conditions[?(@.type=="Delivered")].status`
// +kubebuilder:printcolumn:name="Function",type=string,JSONPath=`.spec.functionRef.name`
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=`.spec.schedule`
// +kubebuilder:printcolumn:name="Last Schedule",type=date,JSONPath=`.status.lastScheduleTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && self.metadata.name.size() <= 52",message="metadata.name must be a DNS label of at most 52 lower-case letters, digits and '-': it is the name of a CronJob"
type CronTrigger struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what is called, and when.
	// +required
	Spec CronTriggerSpec `json:"spec"`

	// status is what was last seen in the cluster.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status CronTriggerStatus `json:"status,omitzero"`
}

// CronTriggerSpec is what is called, and when.
type CronTriggerSpec struct {
	// functionRef names the Function that is called.
	// +required
	FunctionRef FunctionReference `json:"functionRef"`

	// schedule has five fields, as in cron: minute, hour, day of the month, month and day of
	// the week, or is a word such as @hourly or @daily.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="!self.contains('TZ=')",message="schedule must not begin with a time zone: set timeZone"
	Schedule string `json:"schedule"`

	// timeZone is the name of the zone of the schedule, such as Europe/Berlin; Etc/UTC by default. A
	// time that does not exist on a day, because daylight saving time begins, has no call on that day,
	// which the condition Delivered reports. A time that exists twice, because daylight saving time
	// ends, has two calls, with different ids.
	// +optional
	// +kubebuilder:default="Etc/UTC"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`

	// method of the request; POST by default.
	// +optional
	// +kubebuilder:default=POST
	// +kubebuilder:validation:Enum=GET;HEAD;POST;PUT;PATCH;DELETE
	Method string `json:"method,omitempty"`

	// path of the request, with its query; / by default.
	// +optional
	// +kubebuilder:default="/"
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.matches('^/[!-~]*$') && !self.contains('#')",message="path must begin with '/', and what is not printable ASCII must be percent-encoded"
	Path string `json:"path,omitempty"`

	// headers of the request. Those that describe the connection, and those of CloudEvents,
	// which begin with ce-, are not among them. Whoever may read CronTriggers can read them:
	// keep secrets out.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() <= 128 && k.matches('^[A-Za-z0-9-]+$'))",message="a name in headers must be at most 128 letters, digits and '-'"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.lowerAscii().startsWith('ce-') && !(k.lowerAscii() in ['host', 'connection', 'content-length', 'transfer-encoding', 'upgrade', 'te', 'trailer', 'expect', 'keep-alive']))",message="headers must not have those of CloudEvents, which begin with ce-, and those of the connection"
	Headers map[string]HeaderValue `json:"headers,omitempty"`

	// body of the request, of at most 65536 characters and 131000 bytes; none by default. It is an
	// argument of the program that makes the call, which Linux limits to 128 KiB.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	// +kubebuilder:validation:XValidation:rule="bytes(self).size() <= 131000",message="body must be at most 131000 bytes: it is an argument of the program that makes the call, which Linux limits to 128 KiB"
	Body string `json:"body,omitempty"`
}

// HeaderValue is the value of a header.
//
// +kubebuilder:validation:MaxLength=4096
// +kubebuilder:validation:Pattern=`^[ -~\t]*$`
type HeaderValue string

// CronTriggerStatus is what was last seen in the cluster.
type CronTriggerStatus struct {
	TriggerStatus `json:",inline"`

	// lastScheduleTime is the last scheduled time for which a call was begun.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`

	// lastSuccessfulTime is when a call last succeeded.
	// +optional
	LastSuccessfulTime *metav1.Time `json:"lastSuccessfulTime,omitempty"`

	// lastReportedTime is the scheduled time of the last call whose outcome is known. The condition
	// Delivered reports that outcome, and ignores those of earlier calls.
	// +optional
	LastReportedTime *metav1.Time `json:"lastReportedTime,omitempty"`
}

// CronTriggerList is a list of CronTriggers.
//
// +kubebuilder:object:root=true
type CronTriggerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the CronTriggers.
	Items []CronTrigger `json:"items"`
}

// TriggerKind is CronTrigger.
func (*CronTrigger) TriggerKind() string { return "CronTrigger" }

// FunctionNames has the Function that is called.
func (t *CronTrigger) FunctionNames() []string { return []string{t.Spec.FunctionRef.Name} }

// CommonStatus is the part of the status that all kinds have.
func (t *CronTrigger) CommonStatus() *TriggerStatus { return &t.Status.TriggerStatus }
