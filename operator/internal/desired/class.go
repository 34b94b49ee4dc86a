package desired

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/settings"
)

// ClassHash returns the hash of the fields of a class that affect pods; empty if there is no class.
// The namespaceSelector does not affect pods.
func ClassHash(spec *v1beta1.FunctionClassSpec) string {
	if spec == nil {
		return ""
	}
	bare := *spec
	bare.NamespaceSelector = nil
	return Digest(bare)
}

// applyClass applies the fields of a class to a pod.
func applyClass(pod *corev1ac.PodSpecApplyConfiguration, fn *v1beta1.Function, class *v1beta1.FunctionClassSpec) {
	if class == nil {
		return
	}
	spec := corev1.PodSpec{
		ImagePullSecrets: class.ImagePullSecrets, NodeSelector: class.NodeSelector, Tolerations: class.Tolerations,
		Affinity: class.Affinity, PriorityClassName: class.PriorityClassName,
	}
	if class.RuntimeClassName != "" {
		spec.RuntimeClassName = &class.RuntimeClassName
	}
	if class.Affinity != nil {
		pod.Affinity = nil // it replaces the operator's own
	}
	if len(class.TopologySpreadConstraints) > 0 {
		pod.TopologySpreadConstraints, pod.Affinity = nil, nil // they replace both of the operator's own
		for _, constraint := range class.TopologySpreadConstraints {
			spec.TopologySpreadConstraints = append(spec.TopologySpreadConstraints, spreadBy(fn, constraint))
		}
	}
	converted(spec, pod)
}

// spreadBy returns a constraint of a class. Without a labelSelector, it applies to the pods of one
// template of the function.
func spreadBy(fn *v1beta1.Function, constraint corev1.TopologySpreadConstraint) corev1.TopologySpreadConstraint {
	if constraint.LabelSelector == nil {
		constraint.LabelSelector = &metav1.LabelSelector{MatchLabels: Selector(fn.Name)}
		if len(constraint.MatchLabelKeys) == 0 {
			constraint.MatchLabelKeys = []string{"pod-template-hash"}
		}
	}
	return constraint
}

// setUser sets the user and the groups of a pod: those of the class, or else those of the settings.
func setUser(security *corev1ac.PodSecurityContextApplyConfiguration, s settings.Settings) {
	if s.Class != nil && s.Class.PodUser != nil {
		user := s.Class.PodUser
		security.RunAsUser, security.RunAsGroup, security.FSGroup = user.RunAsUser, user.RunAsGroup, user.FSGroup
		return
	}
	if s.PodUser != settings.PodUserCluster {
		security.WithRunAsUser(nonroot).WithRunAsGroup(nonroot)
	}
}

// converted copies a value into the apply configuration that has the same JSON.
func converted[T any](from any, into *T) *T {
	text, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		panic(err) // types of one API
	}
	return into
}
