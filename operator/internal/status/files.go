package status

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// waitsForFiles says which files a pod waits for; empty where it has them, and where it waits for
// something else. The kubelet does not begin with a pod before its volumes are there, and it
// says only in events what is missing.
func (v *view) waitsForFiles(pod *corev1.Pod) string {
	prepares := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionFalse
	})
	var needed []string
	for _, file := range v.fn.Spec.Files {
		if from := file.ConfigMap; from != nil && (from.Optional == nil || !*from.Optional) {
			needed = append(needed, fmt.Sprintf("ConfigMap %q", from.Name))
		}
		if from := file.Secret; from != nil && (from.Optional == nil || !*from.Optional) {
			needed = append(needed, fmt.Sprintf("Secret %q", from.Name))
		}
	}
	if !prepares || len(needed) == 0 {
		return ""
	}
	return oneLine("a replica waits for its files, of " + strings.Join(needed, ", ") + ": kubectl describe pod " + pod.Name + " says whether some are missing")
}
