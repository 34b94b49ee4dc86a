package desired

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/settings"
)

const (
	// BuildContainer is the init container that compiles the source.
	BuildContainer = "build"

	// FunctionContainer is the container that serves.
	FunctionContainer = "function"

	portHTTP    = "http"
	portMetrics = "metrics"

	// nonroot is the user of both containers. The base images of ko have it in
	// their /etc/passwd.
	nonroot = 65532
)

// Deployment runs one revision of the function. The pod template names the
// revision's ConfigMap, so a change of source is a change of template, and a
// change of replicas alone is none. The old pods stay until the new ones are
// ready. values is a hash of what the environment takes from ConfigMaps and
// Secrets; empty when there is nothing.
func Deployment(fn *v1beta1.Function, s settings.Settings, values string) *appsv1ac.DeploymentApplyConfiguration {
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
			WithTemplate(template(fn, s, metadata)))
}

func template(fn *v1beta1.Function, s settings.Settings, metadata podMetadata) *corev1ac.PodTemplateSpecApplyConfiguration {
	t := corev1ac.PodTemplateSpec().
		WithLabels(metadata.labels).
		WithLabels(revisionLabels(fn, Revision(fn.Spec.Function))).
		WithAnnotations(metadata.annotations).
		WithAnnotations(map[string]string{
			sourceAnnotation:       sourceHash(fn.Spec.Function),
			"prometheus.io/scrape": "true",
			"prometheus.io/port":   portString(v1beta1.AdminPort),
			"prometheus.io/path":   "/metrics",
		}).
		WithSpec(podSpec(fn, s))
	return t.WithLabels(map[string]string{TemplateLabel: templateHash(t)})
}

func podSpec(fn *v1beta1.Function, s settings.Settings) *corev1ac.PodSpecApplyConfiguration {
	security := corev1ac.PodSecurityContext().
		WithRunAsNonRoot(true).
		WithRunAsUser(nonroot).
		WithRunAsGroup(nonroot).
		WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))
	if fn.Port() < 1024 {
		// The safe sysctl that lets a process without capabilities bind the port.
		security.WithSysctls(corev1ac.Sysctl().WithName("net.ipv4.ip_unprivileged_port_start").WithValue("0"))
	}
	return corev1ac.PodSpec().
		WithAutomountServiceAccountToken(false).
		WithEnableServiceLinks(false).
		WithTerminationGracePeriodSeconds(gracePeriodSeconds(fn)).
		WithSecurityContext(security).
		WithTopologySpreadConstraints(spread(fn)...).
		WithInitContainers(buildContainer(fn, s)).
		WithContainers(functionContainer(fn, s)).
		WithVolumes(volumes(fn, s)...)
}
