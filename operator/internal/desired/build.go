package desired

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"goless.io/builder/buildapi"
	"goless.io/builder/handler"
	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/settings"
)

// Strategy returns the place where the source of a Function is compiled. The build service has no
// credentials of any namespace, so a source that needs them is compiled in the pod.
func Strategy(fn *v1beta1.Function, s settings.Settings) v1beta1.BuildStrategy {
	asked := cmp.Or(s.Build.Strategy, v1beta1.BuildShared)
	if fn.Spec.Build != nil {
		asked = cmp.Or(fn.Spec.Build.Strategy, asked)
	}
	if m := s.Build.Modules; (m.CABundle.Name != "" || m.Netrc.Name != "") && Summary(fn).Modules {
		return v1beta1.BuildInPod
	}
	return asked
}

// Order returns the build request for the source of a Function, with the limits that apply to a
// build in a pod. If tests is true, the request is to compile the tests.
func Order(fn *v1beta1.Function, s settings.Settings, tests bool) buildapi.Order {
	limits := *buildResources(fn, s).Limits
	o := buildapi.Order{
		Namespace: fn.Namespace, Source: fn.Spec.Function, Tests: tests,
		Timeout: buildTimeout(fn, s), Memory: limits.Memory().Value(),
	}
	if Summary(fn).Modules {
		o.Environment = map[string]string{}
		for _, v := range moduleVariables(s.Build.Modules) {
			o.Environment[v.name] = v.value
		}
	}
	return o
}

// OrderName identifies an order for the source of a Function among all orders for the Function.
func OrderName(fn *v1beta1.Function, tests bool) string {
	if tests {
		return Summary(fn).SHA256 + " tests"
	}
	return Summary(fn).SHA256
}

// defaultMaxBuildTimeout is the default maximum of spec.build.timeout.
const defaultMaxBuildTimeout = 10 * time.Minute

// MaxBuildTimeout returns the maximum of spec.build.timeout.
func MaxBuildTimeout(s settings.Settings) time.Duration {
	return cmp.Or(s.Build.MaxTimeout.Duration, defaultMaxBuildTimeout)
}

// buildTimeout returns the maximum duration of a build; 0 selects the default of the builder.
func buildTimeout(fn *v1beta1.Function, s settings.Settings) time.Duration {
	if fn.Spec.Build != nil && fn.Spec.Build.Timeout != nil {
		return min(fn.Spec.Build.Timeout.Duration, MaxBuildTimeout(s))
	}
	return s.Build.Timeout.Duration
}

// BuildContainer is the init container that compiles the source.
const BuildContainer = "build"

// Volumes of the pod of a function, and their mount paths.
const (
	volumeSource  = "source"
	volumeProgram = "program"
	volumeTmp     = "tmp"
	volumeCA      = "ca"
	volumeNetrc   = "netrc"

	sourceDir  = "/source"
	programDir = "/function"
	tmpDir     = "/tmp"
	caDir      = "/etc/goless/ca"
	netrcDir   = "/etc/goless/netrc"

	caFile    = "ca.crt"
	netrcFile = "netrc"

	program        = programDir + "/server"
	terminationLog = "/dev/termination-log"
)

// inPod completes a pod that compiles the source before the function starts.
func inPod(pod *corev1ac.PodSpecApplyConfiguration, function *corev1ac.ContainerApplyConfiguration, fn *v1beta1.Function, s settings.Settings) *corev1ac.PodSpecApplyConfiguration {
	volumes, mounts := separate(buildVolumes(fn, s))
	return pod.
		WithInitContainers(buildContainer(fn, s).WithVolumeMounts(mounts...)).
		WithContainers(function.
			WithEnv(env(binaryName, "")). // prevents envFrom from setting it
			WithVolumeMounts(corev1ac.VolumeMount().WithName(volumeProgram).WithMountPath(programDir).WithReadOnly(true))).
		WithVolumes(volumes...)
}

// buildContainer returns the init container that compiles the source. It does not receive the
// environment of the function, and the settings for modules only if the source has a go.mod.
func buildContainer(fn *v1beta1.Function, s settings.Settings) *corev1ac.ContainerApplyConfiguration {
	args := []string{"build", "--output-binary", program, "--report", terminationLog}
	if timeout := buildTimeout(fn, s); timeout > 0 {
		args = append(args, "--timeout", timeout.String())
	}
	c := container(BuildContainer, s.Images.Builder, buildResources(fn, s)).
		WithArgs(append(args, sourceDir+"/"+handler.Filename)...).
		WithTerminationMessagePolicy(corev1.TerminationMessageReadFile)
	if Summary(fn).Modules {
		c.WithEnv(moduleEnv(s.Build.Modules)...)
	}
	return c
}

// buildVolumes returns the volumes of the container that compiles.
func buildVolumes(fn *v1beta1.Function, s settings.Settings) []mountedVolume {
	source := corev1ac.Volume().WithName(volumeSource).WithConfigMap(corev1ac.ConfigMapVolumeSource().
		WithName(ConfigMapName(fn, LatestRevision(fn))).
		WithItems(corev1ac.KeyToPath().WithKey(handler.Filename).WithPath(handler.Filename)))
	all := []mountedVolume{
		mounted(source, sourceDir).readOnly(),
		mounted(emptyDir(volumeProgram, "256Mi"), programDir),
		mounted(emptyDir(volumeTmp, "512Mi"), tmpDir),
	}
	if Summary(fn).Modules {
		all = append(all, moduleVolumes(s.Build.Modules)...)
	}
	return all
}

// moduleVolumes returns the volumes with certificates and credentials for modules. They are
// optional: a namespace without them can fetch public modules.
func moduleVolumes(m v1beta1.Modules) (all []mountedVolume) {
	if m.CABundle.Name != "" {
		bundle := corev1ac.Volume().WithName(volumeCA).WithConfigMap(corev1ac.ConfigMapVolumeSource().
			WithName(m.CABundle.Name).WithOptional(true).
			WithItems(corev1ac.KeyToPath().WithKey(m.CABundle.Key).WithPath(caFile)))
		all = append(all, mounted(bundle, caDir).readOnly())
	}
	if m.Netrc.Name != "" {
		netrc := corev1ac.Volume().WithName(volumeNetrc).WithSecret(corev1ac.SecretVolumeSource().
			WithSecretName(m.Netrc.Name).WithOptional(true).
			WithItems(corev1ac.KeyToPath().WithKey(m.Netrc.Key).WithPath(netrcFile)))
		all = append(all, mounted(netrc, netrcDir).readOnly())
	}
	return all
}
