package desired

import (
	corev1 "k8s.io/api/core/v1"
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
	volumes, mounts := separate(buildVolumes(fn, s))
	return pod.
		WithInitContainers(buildContainer(fn, s).WithVolumeMounts(mounts...)).
		WithContainers(function.
			WithEnv(env(binaryName, "")). // so that no ConfigMap of envFrom names one
			WithVolumeMounts(corev1ac.VolumeMount().WithName(volumeProgram).WithMountPath(programDir).WithReadOnly(true))).
		WithVolumes(volumes...)
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
		WithTerminationMessagePolicy(corev1.TerminationMessageReadFile)
	if Summary(fn).Modules {
		c.WithEnv(moduleEnv(s.Build.Modules)...)
	}
	return c
}

// buildVolumes are the volumes of the container that compiles.
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

// moduleVolumes hold certificates and credentials for modules. They are optional: a namespace
// without them can fetch public modules.
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
