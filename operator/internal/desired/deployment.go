package desired

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/settings"
)

// Deployment runs one revision of the function. The pod template names it, so a
// change of source is a change of template, and a change of replicas alone is
// none. The old pods stay until the new ones are ready. values is a hash of what
// the environment takes from ConfigMaps and Secrets; empty when there is nothing.
// The pods run binary; where it is nil, each of them compiles the source.
func Deployment(fn *v1beta1.Function, s settings.Settings, values string, binary *Binary) *appsv1ac.DeploymentApplyConfiguration {
	metadata := passed(fn, s)
	if values != "" {
		metadata.annotations[ValuesAnnotation] = values
	}
	return appsv1ac.Deployment(fn.Name, fn.Namespace).
		WithLabels(labels(fn)).
		WithLabels(map[string]string{WantedLabel: wanted(fn, metadata)}).
		WithOwnerReferences(owner(fn)).
		WithSpec(appsv1ac.DeploymentSpec().
			WithReplicas(fn.WantedReplicas()).
			WithRevisionHistoryLimit(2).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(Selector(fn.Name))).
			WithStrategy(appsv1ac.DeploymentStrategy().
				WithType(appsv1.RollingUpdateDeploymentStrategyType).
				WithRollingUpdate(appsv1ac.RollingUpdateDeployment().
					WithMaxUnavailable(intstr.FromInt32(0)).
					WithMaxSurge(intstr.FromString("25%")))).
			WithTemplate(template(fn, s, metadata, binary)))
}

func template(fn *v1beta1.Function, s settings.Settings, metadata podMetadata, binary *Binary) *corev1ac.PodTemplateSpecApplyConfiguration {
	t := corev1ac.PodTemplateSpec().
		WithLabels(metadata.labels).
		WithLabels(revisionLabels(fn, Revision(fn.Spec.Function))).
		WithLabels(map[string]string{StrategyLabel: string(strategyOf(binary))}).
		WithAnnotations(metadata.annotations).
		WithAnnotations(map[string]string{
			sourceAnnotation:       sourceHash(fn.Spec.Function),
			"prometheus.io/scrape": "true",
			"prometheus.io/port":   portString(v1beta1.AdminPort),
			"prometheus.io/path":   "/metrics",
		}).
		WithSpec(podSpec(fn, s, binary))
	return t.WithLabels(map[string]string{TemplateLabel: templateHash(t)})
}
