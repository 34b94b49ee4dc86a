package desired

import (
	"maps"
	"slices"

	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"

	"goless.io/operator/api/v1beta1"
)

// A Reference is a part of a function's environment, or a file, that is kept elsewhere.
type Reference struct {
	// Name is that of a ConfigMap or, where Secret is set, of a Secret.
	Name   string
	Secret bool

	// Key is one key of it; empty for all.
	Key string

	// File tells that it becomes a file, which may hold binary data.
	File bool
}

// References are the parts of a function's environment that are kept elsewhere, and the
// ConfigMaps of its files, in the order of the spec. A Secret that becomes files is not among
// them: the kubelet updates those where they are.
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

// ReferencedNames are the names of the ConfigMaps, or of the Secrets, of References, each
// once.
func ReferencedNames(fn *v1beta1.Function, secrets bool) []string {
	names := map[string]bool{}
	for _, ref := range References(fn) {
		if ref.Secret == secrets {
			names[ref.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// ValuesIn is the hash of what the environment and the files of a Deployment's pods came from,
// and whether there is one.
func ValuesIn(d *appsv1ac.DeploymentApplyConfiguration) (values string, known bool) {
	values, known = podTemplate(d).Annotations[ValuesAnnotation]
	return values, known
}
