package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"

	"goless.io/operator/internal/desired"
)

// imageLost tells whether a pod of a Deployment's template cannot pull an image that is not the
// operator's own any more: somebody may have deleted it from the registry. A template with the
// operator's own images is kept even if they cannot be pulled.
func (p *planner) imageLost(d *appsv1ac.DeploymentApplyConfiguration) bool {
	former := desired.FormerImages(d, p.settings.Images)
	return len(former) > 0 && slices.ContainsFunc(p.seen.Pods, func(pod corev1.Pod) bool {
		containers := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
		return pod.DeletionTimestamp == nil && desired.TemplateOf(&pod) == desired.TemplateIn(d) &&
			slices.ContainsFunc(containers, func(c corev1.ContainerStatus) bool {
				return slices.Contains(former, c.Name) && c.State.Waiting != nil && slices.Contains(unpulled, c.State.Waiting.Reason)
			})
	})
}

// unpulled are the reasons for which, by the kubelet, a container waits that has no image.
var unpulled = []string{"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "RegistryUnavailable", "SignatureValidationFailed"}
