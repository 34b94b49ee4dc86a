package desired

import (
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"goless.io/operator/api/v1beta1"
)

// volumeScratch is the volume of spec.scratch. It is not the one of the compiler, which may be
// full of what that has left.
const volumeScratch = "scratch"

func scratchVolumes(fn *v1beta1.Function) []mountedVolume {
	if fn.Spec.Scratch == nil {
		return nil
	}
	size := fn.Spec.Scratch.Size.DeepCopy()
	size.RoundUp(0) // to whole bytes
	dir := corev1ac.EmptyDirVolumeSource().WithSizeLimit(size)
	if fn.Spec.Scratch.Medium == v1beta1.ScratchInMemory {
		dir.WithMedium(corev1.StorageMediumMemory)
	}
	return []mountedVolume{mounted(corev1ac.Volume().WithName(volumeScratch).WithEmptyDir(dir), tmpDir)}
}
