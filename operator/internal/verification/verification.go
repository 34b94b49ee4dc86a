// Package verification decides whether a new version of a function is worse than the previous one,
// from the requests that pods of both have served beside each other. It does not access the
// cluster. It also defines the two annotations with which the operator asks the activator to count
// these requests, and the activator reports them.
package verification

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"goless.io/operator/api/v1beta1"
)

// Limits are what the operator asks the activator to check. They are the value of
// [v1beta1.VerifyAnnotation].
type Limits struct {
	// Template is the hash of the pod template of the new version: pods with this value of the label
	// goless.io/template are new.
	Template string `json:"template"`

	// Seconds is how long the first new pod serves beside the old ones.
	Seconds int64 `json:"seconds"`

	// MaxErrors is how much higher the share of failed requests of the new version may be, from 0 to 1.
	MaxErrors float64 `json:"maxErrors"`

	// MinRequests is the number of requests of the new version that a comparison requires.
	MinRequests int64 `json:"minRequests"`
}

// LimitsOf returns the limits of a function whose rollouts are verified, for a new template.
func LimitsOf(v *v1beta1.Verify, template string) Limits {
	return Limits{Template: template, Seconds: int64(v.Duration().Seconds()), MaxErrors: v.MaxErrorShare(), MinRequests: v.RequestsToCompare()}
}

// For returns Seconds as a duration.
func (l Limits) For() time.Duration { return time.Duration(l.Seconds) * time.Second }

// String returns the value of the annotation.
func (l Limits) String() string { return encode(l) }

// ParseLimits parses the value of the annotation. It returns nil if the value is empty or invalid.
func ParseLimits(annotation string) *Limits {
	var l Limits
	if json.Unmarshal([]byte(annotation), &l) != nil || l.Template == "" || l.Seconds < 1 || l.MinRequests < 1 {
		return nil
	}
	return &l
}

// Counts are requests that pods have served.
type Counts struct {
	Requests int64 `json:"requests"`
	Failed   int64 `json:"failed"`
}

// Share returns the share of failed requests, from 0 to 1. It is 0 if there are no requests.
func (c Counts) Share() float64 {
	if c.Requests == 0 {
		return 0
	}
	return float64(c.Failed) / float64(c.Requests)
}

// String returns the counts in words.
func (c Counts) String() string {
	return fmt.Sprintf("%d of %d requests failed (%.3g%%)", c.Failed, c.Requests, 100*c.Share())
}

// A Report is what the activator has counted until the time of [Limits] was over or the new version
// was worse. It is the value of [v1beta1.VerifiedAnnotation].
type Report struct {
	// Template is that of the Limits, and Pod the UID of a new pod. A report about a pod that no longer
	// exists is one of an earlier rollout to the same template.
	Template string    `json:"template"`
	Pod      types.UID `json:"pod"`

	// New are the requests of the new pods, and Previous those of the old pods in the same time. If
	// the latter were fewer than MinRequests, Previous are all since the old pods started.
	New      Counts `json:"new"`
	Previous Counts `json:"previous"`

	// Problem is the reason why the counts of the new pods are unknown; empty if they are known.
	Problem string `json:"problem,omitempty"`
}

// String returns the value of the annotation.
func (r Report) String() string { return encode(r) }

// ParseReport parses the value of the annotation. It returns nil if the value is empty or invalid.
func ParseReport(annotation string) *Report {
	var r Report
	if json.Unmarshal([]byte(annotation), &r) != nil || r.Template == "" {
		return nil
	}
	return &r
}

// z is the number of standard deviations by which the share of the new version must exceed the
// limit. If its true share is at the limit, 1 of 200 comparisons finds it worse by chance.
const z = 2.576

// Worse reports whether the new version fails a larger share of its requests than the limits allow.
// It is false for fewer than MinRequests requests.
//
// It compares the lower bound of the Wilson score interval of the new share with the limit, because
// the share of a few requests is often larger by chance. The comparison is repeated while requests
// arrive, which is why the interval is wide.
func (l Limits) Worse(latest, previous Counts) bool {
	if latest.Requests < l.MinRequests {
		return false
	}
	n, share := float64(latest.Requests), latest.Share()
	center := share + z*z/(2*n)
	margin := z * math.Sqrt(share*(1-share)/n+z*z/(4*n*n))
	return (center-margin)/(1+z*z/n) > previous.Share()+l.MaxErrors
}

func encode(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // strings and finite numbers
	}
	return string(text)
}
