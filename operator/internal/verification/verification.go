// Package verification decides whether a new version of a function fails its verification. A
// version fails its verification if its error rate exceeds that of the previous version by
// significantly more than spec.rollout.verify.maxErrors (see Limits.Worse), or if its process
// exits. This package compares the error rates; package plan detects exits. The rates count
// requests since the first new pod became ready. If the previous version has served fewer than
// minRequests since then, its rate counts all requests since its pods started. The package does not
// access the cluster.
//
// It also defines the values of two annotations: Limits, which the operator writes to a Service, and
// Report, which the activator writes to its EndpointSlices.
package verification

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"goless.io/operator/api/v1beta1"
)

// Limits are what the operator asks the activator to check.
type Limits struct {
	// Template is the hash of the pod template of the new version: pods with this value of the label
	// goless.io/template are new.
	Template string `json:"template"`

	// Seconds is how long the first new pod serves beside the old ones.
	Seconds int64 `json:"seconds"`

	// MaxErrorIncrease is by how much the error rate of the new version may exceed that of the previous
	// one, from 0 to 1.
	MaxErrorIncrease float64 `json:"maxErrorIncrease"`

	// MinRequests is the number of requests that the new version must receive for a comparison.
	MinRequests int64 `json:"minRequests"`

	// TimeoutSeconds is how much longer than Seconds the new version may take to serve MinRequests,
	// while requests are in flight: the timeout of requests, so that a version that does not respond
	// fails some. 0 is no timeout.
	TimeoutSeconds int64 `json:"timeoutSeconds,omitempty"`
}

// LimitsOf returns the limits of a Function whose rollouts are verified, for a new template.
func LimitsOf(fn *v1beta1.Function, template string) Limits {
	v := fn.Spec.Rollout.Verify
	return Limits{
		Template: template, Seconds: int64(v.Duration().Seconds()), MaxErrorIncrease: v.MaxErrorIncrease(), MinRequests: v.MinRequestsOrDefault(),
		TimeoutSeconds: int64(math.Ceil(fn.RequestTimeout().Seconds())),
	}
}

// For returns how long the first new pod serves beside the old ones.
func (l Limits) For() time.Duration { return time.Duration(l.Seconds) * time.Second }

// Longest returns the longest time of a verification.
func (l Limits) Longest() time.Duration {
	return time.Duration(l.Seconds+l.TimeoutSeconds) * time.Second
}

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

	// Rejected are requests beyond the concurrency of the function. They are not part of Requests.
	Rejected int64 `json:"rejected,omitempty"`
}

// Received returns the number of requests, including rejected ones.
func (c Counts) Received() int64 { return c.Requests + c.Rejected }

// Share returns the share of failed requests, from 0 to 1. It is 0 if there are no requests.
func (c Counts) Share() float64 {
	if c.Requests == 0 {
		return 0
	}
	return float64(c.Failed) / float64(c.Requests)
}

// String returns the failed requests in words.
func (c Counts) String() string {
	return fmt.Sprintf("%d of %d requests (%.3g%%)", c.Failed, c.Requests, 100*c.Share())
}

// A Report is what the activator has counted until the time of [Limits] was over or the new version
// failed its verification.
type Report struct {
	// Template is Limits.Template, and Pod is the UID of the new pod that became ready first. If that
	// pod is gone, the report is ignored, because it may be from an earlier rollout.
	Template string    `json:"template"`
	Pod      types.UID `json:"pod"`

	// New are the requests of the new pods. Previous are those of the other pods in the same time or, if
	// these are fewer than MinRequests, since their processes started.
	New      Counts `json:"new"`
	Previous Counts `json:"previous"`

	// Problem is the error of a poll if none of the new pods, or none of the old pods, has responded;
	// empty otherwise.
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

const (
	// z is the number of standard deviations of a confidence interval. If the true difference is at
	// the limit, in 1 of 200 comparisons the new version fails its verification by chance.
	z = 2.576

	// minCompared is the minimum number of requests that are compared, if others were rejected: the
	// interval is too narrow for fewer.
	minCompared = 5
)

// Worse reports whether the error rate of the new version exceeds that of the previous one by more
// than the limits allow. It is false if the new version has received fewer than MinRequests requests.
//
// The error rate of a few requests is often larger by chance, so it compares the lower bound of a
// confidence interval of the difference: that of Newcombe (1998, method 10), from the Wilson score
// intervals of the two rates. If the previous version has served fewer than MinRequests requests,
// the missing ones count as successful.
func (l Limits) Worse(latest, previous Counts) bool {
	if latest.Received() < l.MinRequests || latest.Requests < minCompared {
		return false
	}
	previous.Requests = max(previous.Requests, l.MinRequests)
	lower, _ := latest.interval()
	_, upper := previous.interval()
	margin := math.Hypot(latest.Share()-lower, upper-previous.Share())
	return latest.Share()-previous.Share()-margin > l.MaxErrorIncrease
}

// interval returns the Wilson score interval of the share of failed requests. There must be requests.
func (c Counts) interval() (lower, upper float64) {
	n, share := float64(c.Requests), c.Share()
	center := (share + z*z/(2*n)) / (1 + z*z/n)
	margin := z * math.Sqrt(share*(1-share)/n+z*z/(4*n*n)) / (1 + z*z/n)
	return center - margin, center + margin
}

func encode(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // strings and finite numbers
	}
	return string(text)
}
