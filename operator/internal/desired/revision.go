package desired

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"goless.io/operator/api/v1beta1"
)

const (
	// RevisionLabel holds the revision on what belongs to one revision only:
	// its ConfigMap, and, by the pod template, its ReplicaSets and pods.
	RevisionLabel = "goless.io/revision"

	// TemplateLabel holds, on pods and ReplicaSets, the hash of the pod template
	// that they were made from. It changes with the source and with all else
	// that a pod is made of.
	TemplateLabel = "goless.io/template"

	// ValuesAnnotation holds, on pods, the hash of what their environment took
	// from ConfigMaps and Secrets.
	ValuesAnnotation = "goless.io/values"

	// WantedLabel holds, on a Deployment, the hash of what its user has asked for.
	// It is no annotation, because these count as a change of the Deployment. Where
	// the template has no TemplateLabel, the Deployment has.
	WantedLabel = "goless.io/wanted"

	// sourceAnnotation holds, on pods, the hash of the source in full. Somebody may
	// look for two sources of one revision.
	sourceAnnotation = "goless.io/source"

	// UpgradeAnnotation is for users to set on a Function: with each new value,
	// whatever it is, the function takes what a new version of the operator or its
	// settings have brought.
	UpgradeAnnotation = "goless.io/upgrade"
)

// Revision names a source by its content: ten hexadecimal digits of its
// SHA-256. Equal sources are the same revision.
func Revision(source string) string { return digits([]byte(source)) }

// RevisionOf is the revision that an object of the cluster belongs to; empty
// when it belongs to none.
func RevisionOf(obj metav1.Object) string { return obj.GetLabels()[RevisionLabel] }

// TemplateOf is the hash of the pod template that an object was made from.
func TemplateOf(obj metav1.Object) string { return obj.GetLabels()[TemplateLabel] }

// TemplateIn is the hash of the pod template of a Deployment to be; empty when that
// is nil.
func TemplateIn(d *appsv1ac.DeploymentApplyConfiguration) string {
	if d == nil {
		return ""
	}
	return d.Spec.Template.Labels[TemplateLabel]
}

// wanted is the hash of all that makes the pods of a function and that its user
// has a say in. What the operator adds by itself is not in it.
func wanted(fn *v1beta1.Function, p podMetadata) string {
	spec := fn.Spec.DeepCopy()
	spec.Service, spec.Replicas = "", nil
	spec.ServerPort = fn.Port()
	if fn.RequestTimeout() == v1beta1.DefaultTimeout {
		spec.Timeout = nil
	}
	return Digest(struct {
		Spec                *v1beta1.FunctionSpec
		Labels, Annotations map[string]string `json:",omitempty"`
		Upgrade             string            `json:",omitempty"`
	}{spec, p.labels, p.annotations, fn.Annotations[UpgradeAnnotation]})
}

// Kept is want with the pod template of owned, the fields of the Deployment that
// the operator has written before, if that template is what an operator of
// another version or with other settings has made of the same Function. So what
// runs goes on running. A template that somebody else has changed does not match
// its own hash, and is not kept.
//
// The first versions of the operator left no hashes. What they made is of the same
// Function if nothing in it has changed since it was looked at: that is settled.
func Kept(want, owned *appsv1ac.DeploymentApplyConfiguration, settled bool) (*appsv1ac.DeploymentApplyConfiguration, bool) {
	if !hasTemplate(owned) {
		return nil, false
	}
	made, recorded := owned.Labels[WantedLabel]
	sameWish := recorded && made == want.Labels[WantedLabel] && intact(owned)
	sameSource := !recorded && settled && unhashed(owned.Spec.Template) && owned.Spec.Template.Labels[RevisionLabel] == want.Spec.Template.Labels[RevisionLabel]
	if !sameWish && !sameSource {
		return nil, false
	}
	return withTemplate(want, owned, want.Labels[WantedLabel]), true
}

// Held is want with the pod template of owned, whatever Function that was made of:
// for as long as the template of want cannot be had. A template that somebody else
// has changed is not held.
func Held(want, owned *appsv1ac.DeploymentApplyConfiguration) (*appsv1ac.DeploymentApplyConfiguration, bool) {
	if !hasTemplate(owned) || !intact(owned) {
		return nil, false
	}
	return withTemplate(want, owned, owned.Labels[WantedLabel]), true
}

func hasTemplate(d *appsv1ac.DeploymentApplyConfiguration) bool {
	return d != nil && d.ObjectMetaApplyConfiguration != nil && d.Spec != nil && d.Spec.Template != nil && d.Spec.Template.ObjectMetaApplyConfiguration != nil
}

// intact tells whether the template of a Deployment is as the operator wrote it.
func intact(d *appsv1ac.DeploymentApplyConfiguration) bool {
	return cmp.Or(d.Spec.Template.Labels[TemplateLabel], d.Labels[TemplateLabel]) == templateHash(d.Spec.Template)
}

// withTemplate is want with the template of owned, which was made of what made is
// the hash of.
func withTemplate(want, owned *appsv1ac.DeploymentApplyConfiguration, made string) *appsv1ac.DeploymentApplyConfiguration {
	template, spec, meta := *owned.Spec.Template, *want.Spec, *want.ObjectMetaApplyConfiguration
	spec.Template = &template
	meta.Labels = maps.Clone(want.Labels)
	meta.Labels[WantedLabel] = made
	if template.Labels[TemplateLabel] == "" {
		meta.Labels[TemplateLabel] = templateHash(&template)
	}
	kept := *want
	kept.Spec, kept.ObjectMetaApplyConfiguration = &spec, &meta
	return &kept
}

// unhashed tells whether a template is of a version that left no hashes, and whole:
// what somebody else has taken over is missing in what we own. No later version
// sets GOMEMLIMIT itself, and all of them set REQUEST_TIMEOUT.
func unhashed(t *corev1ac.PodTemplateSpecApplyConfiguration) bool {
	if t.Spec == nil || len(t.Spec.Containers) != 1 || len(t.Spec.InitContainers) != 1 || t.Spec.SecurityContext == nil || t.Spec.AutomountServiceAccountToken == nil {
		return false
	}
	for _, c := range []corev1ac.ContainerApplyConfiguration{t.Spec.Containers[0], t.Spec.InitContainers[0]} {
		if c.Image == nil || c.SecurityContext == nil || c.Resources == nil || len(c.VolumeMounts) == 0 {
			return false
		}
	}
	has := func(name string) bool {
		return slices.ContainsFunc(t.Spec.Containers[0].Env, func(v corev1ac.EnvVarApplyConfiguration) bool { return *v.Name == name && v.Value != nil })
	}
	return t.Labels[TemplateLabel] == "" && has("GOMEMLIMIT") && !has("REQUEST_TIMEOUT")
}

// templateHash is the hash of a template without its TemplateLabel.
func templateHash(template *corev1ac.PodTemplateSpecApplyConfiguration) string {
	bare, meta := *template, *template.ObjectMetaApplyConfiguration
	meta.Labels = map[string]string{}
	for name, value := range template.Labels {
		if name != TemplateLabel {
			meta.Labels[name] = value
		}
	}
	bare.ObjectMetaApplyConfiguration = &meta
	return Digest(&bare)
}

// Digest is the hash of a value of types whose JSON cannot fail: ten hexadecimal
// digits.
func Digest(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return digits(text)
}

func sourceHash(source string) string {
	sum := sha256.Sum256([]byte(source))
	return hex.EncodeToString(sum[:])
}

func digits(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:10]
}
