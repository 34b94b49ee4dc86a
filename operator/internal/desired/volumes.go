package desired

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"goless.io/operator/api/v1beta1"
)

// mountedVolume is a volume of a pod, and where a container has it.
type mountedVolume struct {
	volume *corev1ac.VolumeApplyConfiguration
	mount  *corev1ac.VolumeMountApplyConfiguration
}

func mounted(volume *corev1ac.VolumeApplyConfiguration, dir string) mountedVolume {
	return mountedVolume{volume, corev1ac.VolumeMount().WithName(*volume.Name).WithMountPath(dir)}
}

func (v mountedVolume) readOnly() mountedVolume {
	v.mount.WithReadOnly(true)
	return v
}

// functionVolumes are the volumes of the container that serves.
func functionVolumes(fn *v1beta1.Function) []mountedVolume {
	return slices.Concat(fileVolumes(fn), scratchVolumes(fn), tokenVolumes(fn))
}

// separate returns the volumes and the mounts for a pod and its container.
func separate(all []mountedVolume) (volumes []*corev1ac.VolumeApplyConfiguration, mounts []*corev1ac.VolumeMountApplyConfiguration) {
	for _, v := range all {
		volumes, mounts = append(volumes, v.volume), append(mounts, v.mount)
	}
	return volumes, mounts
}

func emptyDir(name, limit string) *corev1ac.VolumeApplyConfiguration {
	return corev1ac.Volume().WithName(name).
		WithEmptyDir(corev1ac.EmptyDirVolumeSource().WithSizeLimit(resource.MustParse(limit)))
}
