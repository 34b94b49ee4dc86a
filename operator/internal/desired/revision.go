package desired

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

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

	// WantedAnnotation holds, on a Deployment, the hash of what its user has
	// asked for.
	WantedAnnotation = "goless.io/wanted"

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
func Kept(want, owned *appsv1ac.DeploymentApplyConfiguration) *appsv1ac.DeploymentApplyConfiguration {
	if owned.Spec == nil || owned.Spec.Template == nil || owned.ObjectMetaApplyConfiguration == nil ||
		owned.Annotations[WantedAnnotation] != want.Annotations[WantedAnnotation] {
		return want
	}
	template := *owned.Spec.Template
	if template.ObjectMetaApplyConfiguration == nil || template.Labels[TemplateLabel] != templateHash(&template) {
		return want
	}
	spec := *want.Spec
	spec.Template = &template
	kept := *want
	kept.Spec = &spec
	return &kept
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

func digits(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:10]
}
