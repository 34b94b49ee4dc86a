// Package target tells from a Service which function it belongs to and whether that may
// sleep. The Service is all that the activator knows of a Function, and the operator writes
// it. The package reads nothing from a cluster.
package target

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"goless.io/operator/api/v1beta1"
)

// Port is the name of the port of the Service, and of the pods, that takes requests.
const Port = "http"

// A Target is a function that requests are meant for.
type Target struct {
	Service  types.NamespacedName
	UID      types.UID         // of the Service
	Families []corev1.IPFamily // of the addresses of the Service

	// AppProtocol is the protocol of the function by which gateways call it; nil leaves it to them.
	AppProtocol *string

	// SleepAfter is the time without requests after which the function sleeps; 0 if it may not.
	SleepAfter time.Duration

	// Timeout is the longest time that one request may take; 0 if it may take any time.
	Timeout time.Duration

	// Function is the name of the Function, and of its Deployment.
	Function types.NamespacedName
	// FunctionUID is the UID of the Function, which owns the Service and the Deployment.
	FunctionUID types.UID
}

// MaySleep tells whether the function sleeps while nobody calls it.
func (t Target) MaySleep() bool { return t.SleepAfter > 0 }

// Of returns the function of a Service. It returns false if the Service is not controlled by
// the Function that its label names, or if it is being deleted.
func Of(s *corev1.Service) (Target, bool) {
	owner := metav1.GetControllerOf(s)
	if s.DeletionTimestamp != nil || owner == nil || owner.Kind != "Function" ||
		!strings.HasPrefix(owner.APIVersion, v1beta1.GroupVersion.Group+"/") || owner.Name != s.Labels[v1beta1.FunctionLabel] {
		return Target{}, false
	}
	// The operator sets no annotation if the function may not sleep, and none of a timeout if a request
	// may take any time. Then these are 0.
	sleepAfter, _ := time.ParseDuration(s.Annotations[v1beta1.SleepAfterAnnotation])
	timeout, _ := time.ParseDuration(s.Annotations[v1beta1.TimeoutAnnotation])
	var protocol *string
	for _, port := range s.Spec.Ports {
		if port.Name == Port {
			protocol = port.AppProtocol
		}
	}
	return Target{
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
