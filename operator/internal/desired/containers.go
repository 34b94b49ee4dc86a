package desired

import (
	"cmp"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"goless.io/builder/handler"
	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/settings"
)

// buildContainer compiles the source before the function starts. Nothing of the
// function's environment reaches it, and what leads to modules only where the
// source asks for some.
func buildContainer(fn *v1beta1.Function, s settings.Settings) *corev1ac.ContainerApplyConfiguration {
	args := []string{"build", "--output-binary", program, "--report", terminationLog}
	if timeout := buildTimeout(fn, s); timeout > 0 {
		args = append(args, "--timeout", timeout.String())
	}
	c := container(BuildContainer, s.Images.Builder, buildResources(fn, s)).
		WithArgs(append(args, sourceDir+"/"+handler.Filename)...).
		WithTerminationMessagePolicy(corev1.TerminationMessageReadFile).
		WithVolumeMounts(
			mount(volumeSource, sourceDir).WithReadOnly(true),
			mount(volumeProgram, programDir),
			mount(volumeTmp, tmpDir),
		)
	if fetches(fn.Spec.Function) {
		c.WithEnv(moduleEnv(s.Build.Modules)...).WithVolumeMounts(moduleMounts(s.Build.Modules)...)
	}
	return c
}

// defaultMaxBuildTimeout is the most that spec.build.timeout may be where the
// settings do not say.
const defaultMaxBuildTimeout = 10 * time.Minute

// MaxBuildTimeout is the most that spec.build.timeout may be.
func MaxBuildTimeout(s settings.Settings) time.Duration {
	return cmp.Or(s.Build.MaxTimeout.Duration, defaultMaxBuildTimeout)
}

// buildTimeout is how long the compiler may take; 0 leaves it to the builder.
func buildTimeout(fn *v1beta1.Function, s settings.Settings) time.Duration {
	if fn.Spec.Build != nil && fn.Spec.Build.Timeout != nil {
		return min(fn.Spec.Build.Timeout.Duration, MaxBuildTimeout(s))
	}
	return s.Build.Timeout.Duration
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
		WithTerminationMessagePolicy(corev1.TerminationMessageFallbackToLogsOnError).
		WithVolumeMounts(mount(volumeProgram, programDir).WithReadOnly(true))
}

// container is what the restricted Pod Security Standard asks of both.
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
