package desired

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/settings"
)

const (
	// FunctionContainer is the container that serves.
	FunctionContainer = "function"

	portHTTP    = "http"
	portMetrics = "metrics"

	// nonroot is the user of all containers. The base images of ko have it in
	// their /etc/passwd.
	nonroot = 65532
)

// podSpec is what pods of both shapes have in common, and then what one of them
// has.
func podSpec(fn *v1beta1.Function, s settings.Settings, binary *Binary) *corev1ac.PodSpecApplyConfiguration {
	security := corev1ac.PodSecurityContext().
		WithRunAsNonRoot(true).
		WithRunAsUser(nonroot).
		WithRunAsGroup(nonroot).
		WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))
	if fn.Port() < 1024 {
		// The safe sysctl that lets a process without capabilities bind the port.
		security.WithSysctls(corev1ac.Sysctl().WithName("net.ipv4.ip_unprivileged_port_start").WithValue("0"))
	}
	function := functionContainer(fn, s)
	pod := corev1ac.PodSpec().
		WithAutomountServiceAccountToken(false).
		WithEnableServiceLinks(false).
		WithTerminationGracePeriodSeconds(gracePeriodSeconds(fn)).
		WithSecurityContext(security).
		WithTopologySpreadConstraints(spread(fn)...)
	if binary != nil {
		return pod.WithContainers(function.WithEnv(binary.env()...))
	}
	return inPod(pod, function, fn, s)
}

// functionContainer serves.
func functionContainer(fn *v1beta1.Function, s settings.Settings) *corev1ac.ContainerApplyConfiguration {
	return container(FunctionContainer, s.Images.Function, functionResources(fn, s)).
		WithEnv(functionEnv(fn, Revision(fn.Spec.Function))...).
		WithEnvFrom(functionEnvFrom(fn)...).
		WithPorts(
			containerPort(portHTTP, fn.Port()),
			containerPort(portMetrics, v1beta1.AdminPort),
		).
		// No startup probe: it made every start 0.6 s slower, because the kubelet
		// looks at readiness only after it. The delay is what a slow init has.
		WithReadinessProbe(probe("/readyz").WithPeriodSeconds(1).WithFailureThreshold(3)).
		WithLivenessProbe(probe("/healthz").WithInitialDelaySeconds(60).WithPeriodSeconds(10).WithFailureThreshold(6)).
		// A panic at start ends up on stderr, and from there in the status.
		WithTerminationMessagePolicy(corev1.TerminationMessageFallbackToLogsOnError)
}

// container is what the restricted Pod Security Standard asks of all.
func container(name, image string, resources *corev1ac.ResourceRequirementsApplyConfiguration) *corev1ac.ContainerApplyConfiguration {
	return corev1ac.Container().
		WithName(name).
		WithImage(image).
		WithImagePullPolicy(corev1.PullIfNotPresent).
		WithResources(resources).
		WithSecurityContext(corev1ac.SecurityContext().
			WithAllowPrivilegeEscalation(false).
			WithReadOnlyRootFilesystem(true).
			WithCapabilities(corev1ac.Capabilities().WithDrop("ALL")))
}

// probe asks the admin port, which answers for the process and not for the
// user's handler: a busy handler is no reason to restart it.
func probe(path string) *corev1ac.ProbeApplyConfiguration {
	return corev1ac.Probe().
		WithHTTPGet(corev1ac.HTTPGetAction().WithPath(path).WithPort(intstr.FromString(portMetrics))).
		WithTimeoutSeconds(5)
}

func containerPort(name string, port int32) *corev1ac.ContainerPortApplyConfiguration {
	return corev1ac.ContainerPort().WithName(name).WithContainerPort(port).WithProtocol(corev1.ProtocolTCP)
}

func portString(port int32) string { return strconv.Itoa(int(port)) }
