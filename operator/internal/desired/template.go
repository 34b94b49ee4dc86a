package desired

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"goless.io/operator/internal/settings"
)

// RevisionOf returns the source revision in the label of an object; empty if there is none.
func RevisionOf(obj metav1.Object) string { return obj.GetLabels()[RevisionLabel] }

// TemplateOf returns the hash of the pod template that an object was created from.
func TemplateOf(obj metav1.Object) string { return obj.GetLabels()[TemplateLabel] }

// TemplateIn returns the hash of the pod template of an apply configuration; empty if it has no
// template.
func TemplateIn(d *appsv1ac.DeploymentApplyConfiguration) string {
	return podTemplate(d).Labels[TemplateLabel]
}

// RevisionIn returns the source revision of the pod template of an apply configuration; empty if it
// has no template.
func RevisionIn(d *appsv1ac.DeploymentApplyConfiguration) string {
	return podTemplate(d).Labels[RevisionLabel]
}

// podTemplate returns the pod template of an apply configuration; an empty one if it has none.
func podTemplate(d *appsv1ac.DeploymentApplyConfiguration) *corev1ac.PodTemplateSpecApplyConfiguration {
	if hasTemplate(d) {
		return d.Spec.Template
	}
	return corev1ac.PodTemplateSpec().WithLabels(nil)
}

// Keep returns want with the pod template of applied, which the operator has applied before, and with
// the hashes of the spec and of the class that this template was rendered for. applied must be
// intact.
func Keep(want, applied *appsv1ac.DeploymentApplyConfiguration) *appsv1ac.DeploymentApplyConfiguration {
	template, spec, meta := *applied.Spec.Template, *want.Spec, *want.ObjectMetaApplyConfiguration
	spec.Template = &template
	meta.Labels = maps.Clone(want.Labels)
	for _, name := range []string{SpecHashLabel, ClassLabel} {
		delete(meta.Labels, name)
		if made, ok := applied.Labels[name]; ok {
			meta.Labels[name] = made
		}
	}
	kept := *want
	kept.Spec, kept.ObjectMetaApplyConfiguration = &spec, &meta
	return &kept
}

// Repair replaces the images and the binary in the pod template of a Deployment. binary is nil for pods
// that compile.
func Repair(d *appsv1ac.DeploymentApplyConfiguration, images settings.Images, binary *Binary) {
	template := converted(d.Spec.Template, corev1ac.PodTemplateSpec())
	all := map[string]string{BuildContainer: images.Builder, FunctionContainer: images.Function}
	for _, containers := range [][]corev1ac.ContainerApplyConfiguration{template.Spec.InitContainers, template.Spec.Containers} {
		for i := range containers {
			if image, ok := all[*containers[i].Name]; ok {
				containers[i].WithImage(image)
			}
			for j, v := range containers[i].Env {
				if binary != nil {
					binary.replace(&containers[i].Env[j], *v.Name)
				}
			}
		}
	}
	delete(template.Labels, TemplateLabel)
	d.Spec.Template = template.WithLabels(map[string]string{TemplateLabel: templateHash(template)})
}

// SameSpec reports whether two Deployments were rendered for the same spec of the Function.
func SameSpec(a, b *appsv1ac.DeploymentApplyConfiguration) bool {
	return a.Labels[SpecHashLabel] == b.Labels[SpecHashLabel]
}

// OnlyValuesDiffer reports whether the pod templates of want and owned are equal except for the
// hash of the values in ConfigMaps and Secrets.
func OnlyValuesDiffer(want, owned *appsv1ac.DeploymentApplyConfiguration) bool {
	if !hasTemplate(want) || !hasTemplate(owned) {
		return false
	}
	template, meta := *want.Spec.Template, *want.Spec.Template.ObjectMetaApplyConfiguration
	meta.Annotations = maps.Clone(meta.Annotations)
	delete(meta.Annotations, ValuesAnnotation)
	if values, known := ValuesIn(owned); known {
		meta.Annotations[ValuesAnnotation] = values
	}
	template.ObjectMetaApplyConfiguration = &meta
	return templateHash(&template) == TemplateIn(owned)
}

func hasTemplate(d *appsv1ac.DeploymentApplyConfiguration) bool {
	return d != nil && d.ObjectMetaApplyConfiguration != nil && d.Spec != nil && d.Spec.Template != nil && d.Spec.Template.ObjectMetaApplyConfiguration != nil
}

// IsIntact reports whether a Deployment has a pod template, and no other client has changed the
// fields of it that the operator owns. d contains the fields that the operator owns. A client that
// changes a field becomes its owner, so that the field is missing in d. If a policy of the cluster
// rewrites a value during an apply, such as the registry of an image, the operator remains the
// owner: the values differ, and the fields are the same.
func IsIntact(d *appsv1ac.DeploymentApplyConfiguration) bool {
	return hasTemplate(d) && IsIntactTemplate(d.Spec.Template)
}

// IsIntactTemplate is like IsIntact, for a template; nil is not intact.
func IsIntactTemplate(template *corev1ac.PodTemplateSpecApplyConfiguration) bool {
	if template == nil || template.ObjectMetaApplyConfiguration == nil {
		return false
	}
	_, written, found := strings.Cut(template.Labels[TemplateLabel], "-")
	_, owned := templateContent(template)
	if !found || written == Digest(owned) { // by a release that had each toleration in the hash
		return found
	}
	return written == Digest(tolerationsAsValue(owned))
}

// templateHash returns the value of TemplateLabel for a template.
func templateHash(template *corev1ac.PodTemplateSpecApplyConfiguration) string {
	text, names := templateContent(template)
	return digits(text) + "-" + Digest(tolerationsAsValue(names))
}

// tolerationsAsValue removes the fields within the tolerations of a template: the list has a single
// owner, so that a policy that adds a toleration changes only a value.
func tolerationsAsValue(names any) any {
	template, _ := names.(map[string]any)
	pod, _ := template["spec"].(map[string]any)
	if _, found := pod["tolerations"]; found {
		pod["tolerations"] = nil
	}
	return names
}

// templateContent returns the JSON of a template without its TemplateLabel, and the names of its
// fields.
func templateContent(template *corev1ac.PodTemplateSpecApplyConfiguration) (text []byte, names any) {
	bare, meta := *template, *template.ObjectMetaApplyConfiguration
	meta.Labels = maps.Clone(template.Labels)
	delete(meta.Labels, TemplateLabel)
	bare.ObjectMetaApplyConfiguration = &meta
	text, err := json.Marshal(&bare)
	var content any
	if err == nil {
		err = json.Unmarshal(text, &content)
	}
	if err != nil {
		panic(err) // the types of templates have no values that are not JSON
	}
	return text, fields(content)
}

// fields returns decoded JSON with the names of its fields and without their values.
func fields(content any) any {
	switch content := content.(type) {
	case map[string]any:
		for name, value := range content {
			content[name] = fields(value)
		}
		return content
	case []any:
		for i, value := range content {
			content[i] = fields(value)
		}
		return content
	}
	return nil
}

// Digest returns the first ten hexadecimal digits of the SHA-256 hash of a value's JSON. It panics
// if the value cannot be encoded.
func Digest(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return digits(text)
}

func digits(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:revisionDigits]
}
