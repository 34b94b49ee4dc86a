package desired

import (
	"maps"
	"slices"

	"goless.io/operator/api/v1beta1"
)

// A Reference is a part of a function's environment that is kept elsewhere.
type Reference struct {
	// Name is that of a ConfigMap or, where Secret is set, of a Secret.
	Name   string
	Secret bool

	// Key is one key of it; empty for all.
	Key string
}

// References are the parts of a function's environment that are kept elsewhere,
// in the order of the spec.
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
	return all
}

// ReferencedNames are the names of the ConfigMaps, or of the Secrets, that a
// function's environment comes from, each once.
func ReferencedNames(fn *v1beta1.Function, secrets bool) []string {
	names := map[string]bool{}
	for _, ref := range References(fn) {
		if ref.Secret == secrets {
			names[ref.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}
