package desired

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/activator/backend"
)

// Service returns the Service of the function. Port http serves requests, and port metrics is the
// admin port. The target ports are names, so that pods of two revisions with different ports are
// both reachable during a rollout. The annotations tell the activator how long the function must be
// idle before it sleeps, the timeout of requests, and how to scale it by its requests in flight.
func Service(fn *v1beta1.Function) *corev1ac.ServiceApplyConfiguration {
	requests := servicePort(portHTTP, fn.Port())
	if protocol := appProtocol(fn); protocol != "" {
		requests.WithAppProtocol(protocol)
	}
	service := corev1ac.Service(fn.ServiceName(), fn.Namespace).
		WithLabels(labels(fn)).
		WithOwnerReferences(owner(fn)).
		WithSpec(corev1ac.ServiceSpec().
			WithType(corev1.ServiceTypeClusterIP).
			WithSelector(Selector(fn.Name)).
			WithPorts(requests, servicePort(portMetrics, v1beta1.AdminPort)))
	if fn.MaySleep() {
		service.WithAnnotations(map[string]string{v1beta1.SleepAfterAnnotation: fn.SleepAfter().String()})
	}
	// In a window, the function may still be waking, and then the activator forwards its requests.
	mayWake := fn.MaySleep() || fn.Spec.Scaling != nil && len(fn.Spec.Scaling.Windows) > 0
	if timeout := fn.RequestTimeout(); mayWake && timeout > 0 {
		service.WithAnnotations(map[string]string{v1beta1.TimeoutAnnotation: timeout.String()})
	}
	if fn.ScalesOnRequests() {
		least, most := fn.Bounds()
		scaling := backend.Scaling{Min: max(least, 1), Max: most, Requests: *fn.Spec.Scaling.Requests, Concurrency: fn.Spec.Concurrency}
		service.WithAnnotations(map[string]string{v1beta1.ScalingAnnotation: scaling.String()})
	}
	return service
}

// appProtocol returns the application protocol of the port for requests. Without one, some gateways
// use TLS to connect to port 443.
func appProtocol(fn *v1beta1.Function) string {
	if fn.Spec.AppProtocol == "" && fn.Port() == portHTTPS {
		return "http"
	}
	return fn.Spec.AppProtocol
}

// portHTTPS is the port that usually serves HTTPS. Functions serve HTTP on all ports.
const portHTTPS = 443

func servicePort(name string, port int32) *corev1ac.ServicePortApplyConfiguration {
	return corev1ac.ServicePort().
		WithName(name).
		WithPort(port).
		WithProtocol(corev1.ProtocolTCP).
		WithTargetPort(intstr.FromString(name))
}
