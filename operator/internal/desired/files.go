package desired

import (
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"goless.io/operator/api/v1beta1"
)

// volumeFiles begins the names of the volumes of spec.files. deploy/40-fence.yaml lets Secrets
// be mounted by it.
const volumeFiles = "files-"

// fileVolumes returns a volume for each directory of spec.files. There are no subPaths, because
// the kubelet never updates what is mounted by one.
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
