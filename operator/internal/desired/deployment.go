package desired

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/settings"
)

// Deployment returns the Deployment that runs one revision of the function. The pod template
// contains the source revision, so that a change of the source changes the template. A change of
// the number of replicas does not change it. Old pods stay until new ones are ready. values is a
// hash of the values that the environment and the files refer to in ConfigMaps and Secrets (see
// References); empty if there are none. The pods run binary; if it is nil, each of them compiles
// the source. The number of replicas is omitted if it depends on the load.
func Deployment(fn *v1beta1.Function, s settings.Settings, values string, binary *Binary) *appsv1ac.DeploymentApplyConfiguration {
	metadata := podMetadataFrom(fn, s)
	if values != "" {
		metadata.annotations[ValuesAnnotation] = values
	}
	spec := appsv1ac.DeploymentSpec().
		WithRevisionHistoryLimit(2).
		WithSelector(metav1ac.LabelSelector().WithMatchLabels(Selector(fn.Name))).
		WithStrategy(appsv1ac.DeploymentStrategy().
			WithType(appsv1.RollingUpdateDeploymentStrategyType).
			WithRollingUpdate(appsv1ac.RollingUpdateDeployment().
				WithMaxUnavailable(intstr.FromInt32(0)).
				WithMaxSurge(intstr.FromString("25%")))).
		WithTemplate(template(fn, s, metadata, binary))
	spec.ProgressDeadlineSeconds = progressDeadline(fn)
	if n, fixed := fn.FixedReplicas(); fixed {
		spec.WithReplicas(n)
	}
	hashes := map[string]string{SpecHashLabel: specHash(fn, metadata)}
	if s.Class != nil {
		hashes[ClassLabel] = ClassHash(s.Class)
	}
	return appsv1ac.Deployment(fn.Name, fn.Namespace).
		WithLabels(labels(fn)).
		WithLabels(hashes).
		WithOwnerReferences(owner(fn)).
		WithSpec(spec)
}

func template(fn *v1beta1.Function, s settings.Settings, metadata podMetadata, binary *Binary) *corev1ac.PodTemplateSpecApplyConfiguration {
	pod := podSpec(fn, s, binary)
	t := corev1ac.PodTemplateSpec()
	if volumes := localVolumes(pod); volumes != "" {
		t.WithAnnotations(map[string]string{evictableVolumes: volumes})
	}
	if s.Class != nil {
		t.WithLabels(s.Class.Labels).WithAnnotations(s.Class.Annotations)
	}
	t.WithLabels(metadata.labels).
		// All labels are in the domain of Goless, unless the author requests others: other
		// Services may select pods by common labels such as app.kubernetes.io/name.
		WithLabels(Selector(fn.Name)).
		WithLabels(map[string]string{RevisionLabel: LatestRevision(fn), StrategyLabel: string(strategyOf(binary))}).
		WithAnnotations(metadata.annotations).
		WithAnnotations(map[string]string{
			sourceAnnotation:       Summary(fn).SHA256,
			defaultContainer:       FunctionContainer, // kubectl logs uses it without printing a notice
			"prometheus.io/scrape": "true",
			"prometheus.io/port":   portString(v1beta1.AdminPort),
			"prometheus.io/path":   "/metrics",
		}).
		WithSpec(pod)
	return t.WithLabels(map[string]string{TemplateLabel: templateHash(t)})
}

// FormerImages returns the images of a Deployment's containers that differ from the given ones, by
// the names of the containers. It returns none if the Deployment is nil.
func FormerImages(d *appsv1ac.DeploymentApplyConfiguration, images settings.Images) map[string]string {
	pod := podTemplate(d).Spec
	if pod == nil {
		return nil
	}
	former := map[string]string{}
	shipped := map[string]string{BuildContainer: images.Builder, FunctionContainer: images.Function}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		if c.Name != nil && c.Image != nil && *c.Image != shipped[*c.Name] {
			former[*c.Name] = *c.Image
		}
	}
	return former
}

// PodMetadataPrefix is the prefix of the labels and annotations of a Function that are copied to
// its pods.
const PodMetadataPrefix = "pod.goless.io/"

// podMetadata contains the labels and annotations of a Function that are copied to its pods. Only
// allowed prefixes are copied, because some annotations give pods privileges on the node.
type podMetadata struct{ labels, annotations map[string]string }

func podMetadataFrom(fn *v1beta1.Function, s settings.Settings) podMetadata {
	prefixes := append([]string{PodMetadataPrefix}, s.PodMetadataPrefixes...)
	return podMetadata{labels: withPrefix(fn.Labels, prefixes), annotations: withPrefix(fn.Annotations, prefixes)}
}

// Annotations returns the annotations of a Function that the operator uses: those that are copied
// to its pods, and UpgradeAnnotation.
func Annotations(fn *v1beta1.Function, s settings.Settings) map[string]string {
	kept := podMetadataFrom(fn, s).annotations
	if value, ok := fn.Annotations[UpgradeAnnotation]; ok {
		kept[UpgradeAnnotation] = value
	}
	return kept
}

func withPrefix(all map[string]string, prefixes []string) map[string]string {
	kept := map[string]string{}
	for name, value := range all {
		for _, prefix := range prefixes {
			if strings.HasPrefix(name, prefix) {
				kept[name] = value
			}
		}
	}
	return kept
}
