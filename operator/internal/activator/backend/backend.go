// Package backend describes a function to the activator: its Service and its pods. The activator
// does not read Functions: the operator writes everything that the activator needs from a Function
// to the Service. The package reads the pods from the cache, and queries their activity.
package backend

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"goless.io/operator/api/v1beta1"
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

	// Function is the name of the Function and of its Deployment.
	Function types.NamespacedName
	// FunctionUID is the UID of the Function, which owns the Service and the Deployment.
	FunctionUID types.UID
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
	// The operator omits the annotations if the function must not sleep, or requests have no
	// timeout. Then the values are 0.
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
		Function:    types.NamespacedName{Namespace: s.Namespace, Name: owner.Name},
		FunctionUID: owner.UID,
	}, true
}
