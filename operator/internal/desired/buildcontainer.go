package desired

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"goless.io/builder/handler"
	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/settings"
)

// BuildContainer is the init container that compiles the source.
const BuildContainer = "build"

// Volumes of a function's pod and where they are mounted.
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
	return pod.
		WithInitContainers(buildContainer(fn, s)).
		WithContainers(function.
			WithEnv(env(binaryName, "")). // so that no ConfigMap of envFrom names one
			WithVolumeMounts(mount(volumeProgram, programDir).WithReadOnly(true))).
		WithVolumes(volumes(fn, s)...)
}

// buildContainer returns the init container that compiles the source. It gets nothing of the
// function's environment, and the settings for modules only if the source has a go.mod.
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
	if Summary(fn).Modules {
		c.WithEnv(moduleEnv(s.Build.Modules)...).WithVolumeMounts(moduleMounts(s.Build.Modules)...)
	}
	return c
}

func volumes(fn *v1beta1.Function, s settings.Settings) []*corev1ac.VolumeApplyConfiguration {
	all := []*corev1ac.VolumeApplyConfiguration{
		corev1ac.Volume().WithName(volumeSource).WithConfigMap(corev1ac.ConfigMapVolumeSource().
			WithName(ConfigMapName(fn, LatestRevision(fn))).
			WithItems(corev1ac.KeyToPath().WithKey(handler.Filename).WithPath(handler.Filename))),
		emptyDir(volumeProgram, "256Mi"),
		emptyDir(volumeTmp, "512Mi"),
	}
	if Summary(fn).Modules {
		all = append(all, moduleVolumes(s.Build.Modules)...)
	}
	return all
}

// moduleVolumes hold certificates and credentials for modules. They are optional: a namespace
// without them can fetch public modules.
func moduleVolumes(m v1beta1.Modules) []*corev1ac.VolumeApplyConfiguration {
	var all []*corev1ac.VolumeApplyConfiguration
	if m.CABundle.Name != "" {
		all = append(all, corev1ac.Volume().WithName(volumeCA).WithConfigMap(corev1ac.ConfigMapVolumeSource().
			WithName(m.CABundle.Name).WithOptional(true).
			WithItems(corev1ac.KeyToPath().WithKey(m.CABundle.Key).WithPath(caFile))))
	}
	if m.Netrc.Name != "" {
		all = append(all, corev1ac.Volume().WithName(volumeNetrc).WithSecret(corev1ac.SecretVolumeSource().
			WithSecretName(m.Netrc.Name).WithOptional(true).
			WithItems(corev1ac.KeyToPath().WithKey(m.Netrc.Key).WithPath(netrcFile))))
	}
	return all
}

// moduleMounts are the mounts of moduleVolumes.
func moduleMounts(m v1beta1.Modules) []*corev1ac.VolumeMountApplyConfiguration {
	var all []*corev1ac.VolumeMountApplyConfiguration
	if m.CABundle.Name != "" {
		all = append(all, mount(volumeCA, caDir).WithReadOnly(true))
	}
	if m.Netrc.Name != "" {
		all = append(all, mount(volumeNetrc, netrcDir).WithReadOnly(true))
	}
	return all
}

func mount(volume, path string) *corev1ac.VolumeMountApplyConfiguration {
	return corev1ac.VolumeMount().WithName(volume).WithMountPath(path)
}

func emptyDir(name, limit string) *corev1ac.VolumeApplyConfiguration {
	return corev1ac.Volume().WithName(name).
		WithEmptyDir(corev1ac.EmptyDirVolumeSource().WithSizeLimit(resource.MustParse(limit)))
}
