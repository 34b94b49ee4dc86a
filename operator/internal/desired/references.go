package desired

import (
	"maps"
	"slices"

	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"

	"goless.io/operator/api/v1beta1"
)

// Reference is a variable or a file of a function whose value is in a ConfigMap or a Secret.
type Reference struct {
	// Name is the name of a ConfigMap or, if Secret is set, of a Secret.
	Name   string
	Secret bool

	// Key is the key of the value; empty for all keys.
	Key string

	// File reports whether the value becomes a file, which may contain binary data.
	File bool
}

// References returns the references of a Function's environment, and those of its files to
// ConfigMaps, in the order of the spec. Secrets that become files are not included: the kubelet
// updates those in running pods.
func References(fn *v1beta1.Function) []Reference {
	var all []Reference
	for _, v := range fn.Spec.Env {
		switch from := v.ValueFrom; {
		case from == nil:
		case from.ConfigMapKeyRef != nil:
			all = append(all, Reference{Name: from.ConfigMapKeyRef.Name, Key: from.ConfigMapKeyRef.Key})
		case from.SecretKeyRef != nil:
			all = append(all, Reference{Name: from.SecretKeyRef.Name, Key: from.SecretKeyRef.Key, Secret: true})
		}
	}
	for _, from := range fn.Spec.EnvFrom {
		if from.ConfigMapRef != nil {
			all = append(all, Reference{Name: from.ConfigMapRef.Name})
		}
		if from.SecretRef != nil {
			all = append(all, Reference{Name: from.SecretRef.Name, Secret: true})
		}
	}
	for _, file := range fn.Spec.Files {
		if file.ConfigMap == nil {
			continue
		}
		for _, key := range file.ConfigMap.Keys {
			all = append(all, Reference{Name: file.ConfigMap.Name, Key: key, File: true})
		}
		if len(file.ConfigMap.Keys) == 0 {
			all = append(all, Reference{Name: file.ConfigMap.Name, File: true})
		}
	}
	return all
}

// ReferencedNames returns the distinct names of the ConfigMaps, or of the Secrets, in References.
func ReferencedNames(fn *v1beta1.Function, secrets bool) []string {
	names := map[string]bool{}
	for _, ref := range References(fn) {
		if ref.Secret == secrets {
			names[ref.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// ValuesIn returns the hash of the referenced values of a Deployment's pods, and whether it exists.
func ValuesIn(d *appsv1ac.DeploymentApplyConfiguration) (values string, known bool) {
	values, known = podTemplate(d).Annotations[ValuesAnnotation]
	return values, known
}
