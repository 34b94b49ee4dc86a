package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CronTrigger calls a Function on a schedule. It creates a CronJob of the same name; each pod of
// the CronJob makes one call.
//
// A call is a CloudEvent of type io.goless.cron.tick, sent over HTTP in binary content mode. The
// header Ce-Id is unique for each scheduled time and the same for all attempts of a call. The
// response determines what happens next:
//   - 2xx: the call has succeeded.
//   - No response, or status 404, 408, 409, 429 or 5xx: the call is retried with increasing
//     delays, for 10 minutes.
//   - Any other status: the call has failed and is not retried.
//
// An attempt times out after the timeout of the Function plus 70 seconds (the time for a function
// that is scaled to zero to start), or after 1 hour if the Function has no timeout. Calls may
// overlap.
//
// As with all CronJobs, a scheduled time may lead to two calls or to none. Two calls for one
// scheduled time have the same Ce-Id. The condition Delivered reports a call that was not made.
//
// The exit code of the container named deliver determines the outcome of a call. Other containers
// of the pod, such as an injected sidecar, are ignored. If one of them still runs when deliver has
// terminated, the Job is deleted as soon as the status contains the outcome.
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

	// spec is the desired state. A change applies to the calls that begin after it.
	// +required
	Spec CronTriggerSpec `json:"spec"`

	// status is the state that was last observed.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status CronTriggerStatus `json:"status,omitzero"`
}

// CronTriggerSpec is the desired state of a CronTrigger.
type CronTriggerSpec struct {
	// functionRef is the Function to call. While it does not exist, has no Service or is stopped,
	// the CronJob is suspended.
	// +required
	FunctionRef FunctionReference `json:"functionRef"`

	// schedule is the schedule in cron format: minute, hour, day of the month, month and day of the
	// week, or a word such as @hourly or @daily. A call that cannot begin within 5 minutes of its
	// scheduled time is not made, and Delivered is False with reason Missed. The schedule must not
	// contain a time zone; use timeZone. Maximum: 256 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="!self.contains('TZ=')",message="schedule must not begin with a time zone: set timeZone"
	Schedule string `json:"schedule"`

	// timeZone is the name of the time zone of the schedule, such as Europe/Berlin. Default:
	// Etc/UTC. If daylight saving time skips a scheduled time, no call is made; the condition
	// Delivered reports that, unless the schedule has calls in every hour of the day. A time that
	// occurs twice because daylight saving time ends has two calls with different values of Ce-Id.
	// +optional
	// +kubebuilder:default="Etc/UTC"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`

	// method is the method of the request: GET, HEAD, POST, PUT, PATCH or DELETE. Default: POST.
	// +optional
	// +kubebuilder:default=POST
	// +kubebuilder:validation:Enum=GET;HEAD;POST;PUT;PATCH;DELETE
	Method string `json:"method,omitempty"`

	// path is the path of the request, optionally with a query. Default: /. It must begin with /.
	// Spaces, '#' and characters that are not printable ASCII must be percent-encoded. Maximum:
	// 2048 characters.
	// +optional
	// +kubebuilder:default="/"
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.matches('^/[!-~]*$') && !self.contains('#')",message="path must begin with '/'; spaces, '#' and characters that are not printable ASCII must be percent-encoded"
	Path string `json:"path,omitempty"`

	// headers are additional headers of the request. Maximum: 32 headers with names of at most 128
	// characters and values of at most 4096 characters. Headers of the connection, such as Host and
	// Content-Length, and headers of CloudEvents, which begin with ce-, are not allowed. Do not put
	// secrets here: everyone who can read CronTriggers can read the headers.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() <= 128 && k.matches('^[A-Za-z0-9-]+$'))",message="a name in headers must be at most 128 letters, digits and '-'"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.lowerAscii().startsWith('ce-') && !(k.lowerAscii() in ['host', 'connection', 'content-length', 'transfer-encoding', 'upgrade', 'te', 'trailer', 'expect', 'keep-alive']))",message="headers must not contain CloudEvents headers (ce-*) or connection headers such as Host"
	Headers map[string]HeaderValue `json:"headers,omitempty"`

	// body is the body of the request. Default: empty. Maximum: 65536 characters and 131000 bytes,
	// because it is a command-line argument, which Linux limits to 128 KiB.
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

// CronTriggerStatus is the observed state of a CronTrigger.
type CronTriggerStatus struct {
	TriggerStatus `json:",inline"`

	// lastScheduleTime is the last scheduled time for which a call was started.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`

	// lastSuccessfulTime is the time when a call last succeeded.
	// +optional
	LastSuccessfulTime *metav1.Time `json:"lastSuccessfulTime,omitempty"`

	// lastReportedTime is the scheduled time of the last call whose outcome is known. The condition
	// Delivered reports that outcome, unless a call was missed after it. If calls overlap, and the
	// outcome of a call with a later scheduled time is already reported, the outcome of the earlier
	// call is never reported.
	// +optional
	LastReportedTime *metav1.Time `json:"lastReportedTime,omitempty"`
}

// CronTriggerList is a list of CronTriggers.
//
// +kubebuilder:object:root=true
type CronTriggerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items is the list of CronTriggers.
	Items []CronTrigger `json:"items"`
}

// TriggerKind returns CronTrigger.
func (*CronTrigger) TriggerKind() string { return "CronTrigger" }

// FunctionNames returns the name of the Function to call.
func (t *CronTrigger) FunctionNames() []string { return []string{t.Spec.FunctionRef.Name} }

// CommonStatus returns the part of the status that is common to all triggers.
func (t *CronTrigger) CommonStatus() *TriggerStatus { return &t.Status.TriggerStatus }
