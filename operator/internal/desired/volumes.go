package desired

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"goless.io/operator/api/v1beta1"
)

// mountedVolume is a volume of a pod and its mount in a container.
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

// functionVolumes returns the volumes of the function container.
func functionVolumes(fn *v1beta1.Function) []mountedVolume {
	return slices.Concat(fileVolumes(fn), scratchVolumes(fn), tokenVolumes(fn))
}

// separate returns the volumes of a pod and the mounts of its container.
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

// localVolumes returns the names of the volumes of a pod that are on the disk of its node,
// separated by commas. Their content, the output of the compiler and /tmp, may be lost.
func localVolumes(pod *corev1ac.PodSpecApplyConfiguration) string {
	var names []string
	for _, v := range pod.Volumes {
		if v.EmptyDir != nil && (v.EmptyDir.Medium == nil || *v.EmptyDir.Medium != corev1.StorageMediumMemory) {
			names = append(names, *v.Name)
		}
	}
	return strings.Join(names, ",")
}

// volumeFiles is the prefix of the volumes of spec.files. The access policy in deploy/40-access-policy.yaml
// allows Secrets in volumes with this prefix.
const volumeFiles = "files-"

// fileVolumes returns a volume for each directory of spec.files. It does not use subPaths, because
// the kubelet never updates those.
func fileVolumes(fn *v1beta1.Function) (all []mountedVolume) {
	for _, file := range fn.Spec.Files {
		volume := corev1ac.Volume().WithName(volumeFiles + file.Name)
		if from := file.ConfigMap; from != nil {
			volume.WithConfigMap(corev1ac.ConfigMapVolumeSource().WithName(from.Name).WithItems(items(from.Keys)...))
			volume.ConfigMap.Optional = from.Optional
		}
		if from := file.Secret; from != nil {
			volume.WithSecret(corev1ac.SecretVolumeSource().WithSecretName(from.Name).WithItems(items(from.Keys)...))
			volume.Secret.Optional = from.Optional
		}
		all = append(all, mounted(volume, v1beta1.FilesDir+"/"+file.Name).readOnly())
	}
	return all
}

func items(keys []string) []*corev1ac.KeyToPathApplyConfiguration {
	var all []*corev1ac.KeyToPathApplyConfiguration
	for _, key := range keys {
		all = append(all, corev1ac.KeyToPath().WithKey(key).WithPath(key))
	}
	return all
}

// volumeScratch is the volume of spec.scratch. It is not the volume of the compiler, which may be
// full.
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

// volumeToken is the volume of spec.serviceAccountToken. The access policy in deploy/40-access-policy.yaml
// allows tokens in this volume.
const volumeToken = "token"

// tokenVolumes returns a volume with the same files that the kubelet mounts by default, except for
// the audience, so that client libraries of Kubernetes find them.
func tokenVolumes(fn *v1beta1.Function) []mountedVolume {
	token := fn.Spec.ServiceAccountToken
	if token == nil {
		return nil
	}
	volume := corev1ac.Volume().WithName(volumeToken).WithProjected(corev1ac.ProjectedVolumeSource().WithSources(
		corev1ac.VolumeProjection().WithServiceAccountToken(corev1ac.ServiceAccountTokenProjection().
			WithAudience(token.Audience).
			WithExpirationSeconds(cmp.Or(token.ExpirationSeconds, v1beta1.DefaultTokenExpirationSeconds)).
			WithPath("token")),
		corev1ac.VolumeProjection().WithConfigMap(corev1ac.ConfigMapProjection().
			WithName("kube-root-ca.crt").
			WithItems(items([]string{"ca.crt"})...)),
		corev1ac.VolumeProjection().WithDownwardAPI(corev1ac.DownwardAPIProjection().
			WithItems(corev1ac.DownwardAPIVolumeFile().
				WithPath("namespace").
				// The API server would add the default of APIVersion.
				WithFieldRef(corev1ac.ObjectFieldSelector().WithAPIVersion("v1").WithFieldPath("metadata.namespace")))),
	))
	return []mountedVolume{mounted(volume, v1beta1.TokenDir).readOnly()}
}
