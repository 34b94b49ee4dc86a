// Package backend is the activator's view of a function: what its Service says, the state and the
// activity of its pods, and its number of replicas. The activator does not read Functions: the
// operator writes everything that the activator needs from a Function to the Service. The package
// reads the pods from the cache, queries their activity, and scales the Deployment.
package backend

import (
	"encoding/json"
	"math"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/verification"
)

// PortName is the name of the port that receives requests, in the Service and in the pods.
const PortName = "http"

// A Backend is the function behind a Service.
type Backend struct {
	Service  types.NamespacedName
	UID      types.UID         // of the Service
	Families []corev1.IPFamily // address families of the Service

	// AppProtocol is the application protocol in the Service port, a hint for gateways. It may be
	// nil.
	AppProtocol *string

	// SleepAfter is the time without requests after which the function is scaled to zero. 0 means
	// never.
	SleepAfter time.Duration

	// Timeout is the longest time that a request may take. 0 means no limit.
	Timeout time.Duration

	// Scaling is nil if the number of replicas does not follow the requests.
	Scaling *Scaling

	// Verify contains the limits for a rollout that is being verified; nil if there is none.
	Verify *verification.Limits

	// Function is the name of the Function and of its Deployment.
	Function types.NamespacedName
	// FunctionUID is the UID of the Function, which owns the Service and the Deployment.
	FunctionUID types.UID
}

// Scaling tells the activator how to set the number of replicas of a function that is awake. It is
// the value of [v1beta1.ScalingAnnotation].
type Scaling struct {
	Min      int32 `json:"min"` // at least 1
	Max      int32 `json:"max"`
	Requests int32 `json:"requests"` // target for the average number of requests in flight per replica
	// Concurrency is the maximum number of requests that a replica serves at the same time; 0 is no
	// limit.
	Concurrency int32 `json:"concurrency,omitempty"`
}

// Replicas returns the number of replicas that a number of requests in flight requires, within the
// bounds.
func (s Scaling) Replicas(requests float64) int32 {
	return int32(max(min(math.Ceil(requests/float64(s.Requests)), float64(s.Max)), float64(s.Min)))
}

// String returns the value of the annotation.
func (s Scaling) String() string {
	text, _ := json.Marshal(s) // numbers only
	return string(text)
}

// scalingFrom parses the value of the annotation. It returns nil if the value is empty or invalid.
func scalingFrom(annotation string) *Scaling {
	var s Scaling
	if err := json.Unmarshal([]byte(annotation), &s); err != nil || s.Min < 1 || s.Max < s.Min || s.Requests < 1 {
		return nil
	}
	return &s
}

// MaySleep reports whether the function is scaled to zero when it is idle.
func (b Backend) MaySleep() bool { return b.SleepAfter > 0 }

// FromService returns the Backend of a Service. It returns false if the Service is not controlled
// by the Function in its label, or is being deleted.
func FromService(s *corev1.Service) (Backend, bool) {
	owner := metav1.GetControllerOf(s)
	if s.DeletionTimestamp != nil || owner == nil || owner.Kind != "Function" ||
		!strings.HasPrefix(owner.APIVersion, v1beta1.GroupVersion.Group+"/") || owner.Name != s.Labels[v1beta1.FunctionLabel] {
		return Backend{}, false
	}
	// The operator omits the annotations if the function must not sleep and has no windows, or
	// requests have no timeout. Then the values are 0.
	sleepAfter, _ := time.ParseDuration(s.Annotations[v1beta1.SleepAfterAnnotation])
	timeout, _ := time.ParseDuration(s.Annotations[v1beta1.TimeoutAnnotation])
	var protocol *string
	for _, port := range s.Spec.Ports {
		if port.Name == PortName {
			protocol = port.AppProtocol
		}
	}
	return Backend{
		Service:     types.NamespacedName{Namespace: s.Namespace, Name: s.Name},
		UID:         s.UID,
		Families:    s.Spec.IPFamilies,
		AppProtocol: protocol,
		SleepAfter:  sleepAfter,
		Timeout:     timeout,
		Scaling:     scalingFrom(s.Annotations[v1beta1.ScalingAnnotation]),
		Verify:      verification.ParseLimits(s.Annotations[v1beta1.VerifyLimitsAnnotation]),
		Function:    types.NamespacedName{Namespace: s.Namespace, Name: owner.Name},
		FunctionUID: owner.UID,
	}, true
}
