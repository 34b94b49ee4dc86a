package v1beta1

import (
	"math"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// DefaultVerifyFor is the default of spec.rollout.verify.for.
	DefaultVerifyFor = 2 * time.Minute

	// DefaultMaxErrors is the default of spec.rollout.verify.maxErrors, in percent.
	DefaultMaxErrors = 5

	// DefaultMinRequests is the default of spec.rollout.verify.minRequests.
	DefaultMinRequests = 20
)

// VerifyLimitsAnnotation contains the Limits of package verification, as JSON. The operator sets it on
// the Service of a function while a rollout is verified.
const VerifyLimitsAnnotation = "goless.io/verify-limits"

// VerifyReportAnnotation contains the Report of package verification, as JSON. The activator sets it
// on its EndpointSlices, and removes it when the rollout is no longer verified.
const VerifyReportAnnotation = "goless.io/verify-report"

// Rollout configures how a new version replaces the previous one.
type Rollout struct {
	// verify pauses a rollout after the first new pod, which serves together with the old pods, and
	// compares the error rates. If the new version exceeds maxErrors, or its process exits, the
	// previous version is restored: Ready is False with reason RolledBack, and Stalled is True until a
	// change creates a new version, or verify changes. Otherwise the rollout continues. Default: none
	// (a new version replaces the previous one when it is ready). {} verifies with the defaults.
	//
	// The first version is not verified. A rollout is not verified either if its cause is a change
	// of a FunctionClass, of the cluster settings (except podMetadataPrefixes), or of Goless. But a
	// rollout that you request with the annotation goless.io/upgrade (see docs/how-to/upgrade.md)
	// is verified, and so is a rollout because the values of a ConfigMap or Secret have changed.
	// docs/how-to/operate.md lists the other exceptions.
	// +optional
	Verify *Verify `json:"verify,omitempty"`
}

// Verify configures the verification of a rollout.
type Verify struct {
	// for is how long the first new pod serves beside the old ones, such as 30s or 5m. It begins
	// when the pod is ready. It ends earlier if the new version fails the verification. If fewer
	// than minRequests requests to the new version have ended, and others are in flight, it is
	// extended by up to spec.timeout. Default: 2m. Range: 10s to 1h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}[smh])+$')",message="for must be a time such as 30s or 1m30s"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}[smh])+$') || duration(self) >= duration('10s') && duration(self) <= duration('1h')",message="for must be from 10s to 1h"
	For *metav1.Duration `json:"for,omitempty"`

	// maxErrors is the number of percentage points by which the error rate of the new version may
	// exceed that of the old version: with 5%, and old pods that fail 2% of their requests, the new
	// version may fail 7%. If the old pods have served fewer than minRequests requests since they
	// started, their error rate is computed as if they had served minRequests, and all additional
	// ones had succeeded. Failed requests are responses with a status of 5xx, panics, timeouts, and
	// responses that the handler aborted or whose length differs from Content-Length. Rejections
	// beyond concurrency do not count. The comparison is statistical (99% confidence). For example,
	// with 5%, if both versions have received 20 requests and the old version has failed none, the
	// new version fails the verification when at least 8 of its requests fail; with 200 requests
	// each, when at least 21 fail. Default: 5%. Range: 0% to 99.99%.
	// +optional
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]|[1-9][0-9])([.][0-9]{1,2})?%$')",message="maxErrors must be a percentage from 0% to 99.99%, such as 5%"
	MaxErrors string `json:"maxErrors,omitempty"`

	// minRequests is the minimum number of requests to the new version. With fewer, the versions are
	// not compared: the rollout continues, and a Warning event reports it. Default: 20. Range: 5 to
	// 1000000.
	// +optional
	// +kubebuilder:validation:Minimum=5
	// +kubebuilder:validation:Maximum=1000000
	MinRequests *int32 `json:"minRequests,omitempty"`
}

// Verifies reports whether rollouts of a function are verified.
func (f *Function) Verifies() bool { return f.Spec.Rollout != nil && f.Spec.Rollout.Verify != nil }

// Duration returns the value of for, or its default.
func (v *Verify) Duration() time.Duration {
	if v.For == nil {
		return DefaultVerifyFor
	}
	return v.For.Duration
}

// MaxErrorIncrease returns the value of maxErrors, or its default, as a number from 0 to 1.
func (v *Verify) MaxErrorIncrease() float64 {
	percent, err := strconv.ParseFloat(strings.TrimSuffix(v.MaxErrors, "%"), 64)
	if err != nil || math.IsNaN(percent) {
		percent = DefaultMaxErrors
	}
	return percent / 100
}

// MinRequestsOrDefault returns the value of minRequests, or its default.
func (v *Verify) MinRequestsOrDefault() int64 {
	if v.MinRequests == nil {
		return DefaultMinRequests
	}
	return int64(*v.MinRequests)
}
