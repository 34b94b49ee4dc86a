package desired

import (
	"cmp"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"goless.io/operator/api/v1beta1"
)

// volumeToken is the volume of spec.serviceAccountToken. deploy/40-fence.yaml lets tokens be
// mounted by it.
const volumeToken = "token"

// runAs gives a pod its account, in both of the fields that the API server keeps it in: the
// deprecated one would bring back the account if only the other one was removed.
func runAs(pod *corev1ac.PodSpecApplyConfiguration, fn *v1beta1.Function) {
	if name := fn.Spec.ServiceAccountName; name != "" {
		pod.WithServiceAccountName(name).WithDeprecatedServiceAccount(name)
	}
}

// tokenVolumes hold what the kubelet mounts into pods that have a token by default, but for the
// audience: so client libraries of Kubernetes find what they need.
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
