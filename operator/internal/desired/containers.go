package desired

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"goless.io/builder/handler"
	"goless.io/operator/api/v1beta1"
)

// Volumes of a function's pod and where they are mounted.
const (
	volumeSource  = "source"
	volumeProgram = "program"
	volumeTmp     = "tmp"

	sourceDir  = "/source"
	programDir = "/function"
	tmpDir     = "/tmp"

	program        = programDir + "/server"
	terminationLog = "/dev/termination-log"
)

// buildContainer compiles the source before the function starts. Its memory
// limit is what contains sources that make the compiler grow without end; real
// ones have been seen to need up to 430 MiB. It has no environment, so nothing
// of the function's reaches the compiler.
func buildContainer(image string) *corev1ac.ContainerApplyConfiguration {
	return container(BuildContainer, image, resources{
		requests: corev1.ResourceList{"cpu": resource.MustParse("50m"), "memory": resource.MustParse("128Mi")},
		limits:   corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("768Mi")},
	}).
		WithArgs("build", "--output-binary", program, "--report", terminationLog, sourceDir+"/"+handler.Filename).
		WithTerminationMessagePolicy(corev1.TerminationMessageReadFile).
		WithVolumeMounts(
			mount(volumeSource, sourceDir).WithReadOnly(true),
			mount(volumeProgram, programDir),
			mount(volumeTmp, tmpDir),
		)
}

// functionContainer serves. It has no CPU limit, because throttling shows as
// latency; GOMEMLIMIT keeps the garbage collector ahead of the memory limit.
func functionContainer(fn *v1beta1.Function, revision, image string) *corev1ac.ContainerApplyConfiguration {
	return container(FunctionContainer, image, resources{
		requests: corev1.ResourceList{"cpu": resource.MustParse("50m"), "memory": resource.MustParse("32Mi")},
		limits:   corev1.ResourceList{"memory": resource.MustParse("256Mi")},
	}).
		WithEnv(
			env("SERVER_PORT", portString(fn.Port())),
			env("ADMIN_PORT", portString(v1beta1.AdminPort)),
			env("FUNCTION_NAME", fn.Name),
			env("FUNCTION_NAMESPACE", fn.Namespace),
			env("FUNCTION_REVISION", revision),
			env("GOMEMLIMIT", "230MiB"),
		).
		WithPorts(
			containerPort(portHTTP, fn.Port()),
			containerPort(portMetrics, v1beta1.AdminPort),
		).
		// No startup probe: it made every start 0.6 s slower, because the kubelet
		// looks at readiness only after it. The delay is what a slow init has.
		WithReadinessProbe(probe("/readyz").WithPeriodSeconds(1).WithFailureThreshold(3)).
		WithLivenessProbe(probe("/healthz").WithInitialDelaySeconds(60).WithPeriodSeconds(10).WithFailureThreshold(6)).
		// A panic at start ends up on stderr, and from there in the status.
		WithTerminationMessagePolicy(corev1.TerminationMessageFallbackToLogsOnError).
		WithVolumeMounts(mount(volumeProgram, programDir).WithReadOnly(true))
}

type resources struct{ requests, limits corev1.ResourceList }

// container is what the restricted Pod Security Standard asks of both.
func container(name, image string, r resources) *corev1ac.ContainerApplyConfiguration {
	return corev1ac.Container().
		WithName(name).
		WithImage(image).
		WithImagePullPolicy(corev1.PullIfNotPresent).
		WithResources(corev1ac.ResourceRequirements().WithRequests(r.requests).WithLimits(r.limits)).
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

func env(name, value string) *corev1ac.EnvVarApplyConfiguration {
	return corev1ac.EnvVar().WithName(name).WithValue(value)
}

func mount(volume, path string) *corev1ac.VolumeMountApplyConfiguration {
	return corev1ac.VolumeMount().WithName(volume).WithMountPath(path)
}

func emptyDir(name, limit string) *corev1ac.VolumeApplyConfiguration {
	return corev1ac.Volume().WithName(name).
		WithEmptyDir(corev1ac.EmptyDirVolumeSource().WithSizeLimit(resource.MustParse(limit)))
}

func portString(port int32) string { return strconv.Itoa(int(port)) }
