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

// VerifyAnnotation is set on the Service of a function while a rollout is verified. Its value is
// JSON, see package verification.
const VerifyAnnotation = "goless.io/verify"

// Rollout configures how a new version replaces the previous one.
type Rollout struct {
	// verify makes a rollout stop at one new pod, which serves beside the old ones, and compares its
	// errors with theirs. If it is worse, or if its process exits, the previous version is restored:
	// Ready is False with reason RolledBack, and Stalled is True until the spec changes. Otherwise
	// the rollout continues. Default: none (a new version replaces the previous one when it is
	// ready). A first version is not verified, and neither are changes that the author has not made,
	// such as those of a class. {} verifies with the defaults.
	// +optional
	Verify *Verify `json:"verify,omitempty"`
}

// Verify configures the verification of a rollout.
type Verify struct {
	// for is how long the first new pod serves beside the old ones, such as 30s or 5m. It begins when
	// the pod is ready. A pod that is much worse is removed earlier. Default: 2m. Range: 10s to 1h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}[smh])+$')",message="for must be a time such as 30s or 1m30s"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}[smh])+$') || duration(self) >= duration('10s') && duration(self) <= duration('1h')",message="for must be from 10s to 1h"
	For *metav1.Duration `json:"for,omitempty"`

	// maxErrors is how much higher the share of failed requests of the new version may be than that
	// of the old one, such as 5%. With 5% and old pods that fail 2% of their requests, the new version
	// may fail 7%. Failed requests are responses with a status of 5xx, panics and timeouts; rejections
	// beyond concurrency do not count. The new version is worse only if chance is an unlikely
	// explanation (about 1 in 200): of 20 requests, 4 have to fail to exceed 5%. Default: 5%.
	// +optional
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]|[1-9][0-9])([.][0-9]{1,2})?%$')",message="maxErrors must be a percentage from 0% to 99.99%, such as 5%"
	MaxErrors string `json:"maxErrors,omitempty"`

	// minRequests is the number of requests to the new version that a comparison requires. With fewer
	// requests, the rollout continues because the pod is ready, and an event says so. Default: 20.
	// Range: 1 to 1000000.
	// +optional
	// +kubebuilder:validation:Minimum=1
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

// MaxErrorShare returns the value of maxErrors, or its default, as a number from 0 to 1.
func (v *Verify) MaxErrorShare() float64 {
	percent, err := strconv.ParseFloat(strings.TrimSuffix(v.MaxErrors, "%"), 64)
	if err != nil || math.IsNaN(percent) {
		percent = DefaultMaxErrors
	}
	return percent / 100
}

// RequestsToCompare returns the value of minRequests, or its default.
func (v *Verify) RequestsToCompare() int64 {
	if v.MinRequests == nil {
		return DefaultMinRequests
	}
	return int64(*v.MinRequests)
}
