package class

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// maxListed is the maximum number of namespaces in a message.
const maxListed = 3

// DefaultConflict describes the namespaces for which another class is also a default, and which
// class their Functions have. It returns an empty string if there are none. The class need not be
// in the cache.
func (c *Classes) DefaultConflict(ctx context.Context, class *v1beta1.FunctionClass) (string, error) {
	if c.disabled || !class.IsDefault() {
		return "", nil
	}
	var all v1beta1.FunctionClassList
	var existing metav1.PartialObjectMetadataList
	existing.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	for _, list := range []client.ObjectList{&all, &existing} {
		if err := c.cached.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return "", fmt.Errorf("listing %T: %w", list, err)
		}
	}
	others := slices.DeleteFunc(slices.Clone(all.Items), func(other v1beta1.FunctionClass) bool {
		return !other.IsDefault() || other.Name == class.Name
	})
	return conflict(class, others, existing.Items), nil
}

// conflict returns the DefaultConflict between a class and other default classes.
func conflict(class *v1beta1.FunctionClass, others []v1beta1.FunctionClass, existing []metav1.PartialObjectMetadata) string {
	defaults := map[string]v1beta1.FunctionClass{}
	var shared []string
	for _, namespace := range existing {
		if !selects(class, namespace.Labels) {
			continue
		}
		for _, other := range others {
			if selects(&other, namespace.Labels) {
				defaults[other.Name], defaults[class.Name] = other, *class
				shared = append(shared, namespace.Name)
			}
		}
	}
	if len(shared) == 0 {
		return ""
	}
	var names []string
	for _, d := range slices.SortedFunc(maps.Values(defaults), newestFirst) {
		names = append(names, d.Name)
	}
	slices.Sort(shared)
	return fmt.Sprintf("more than one FunctionClass is the default of %s: %s; functions without spec.className use the newest default class that selects their namespace;"+
		" remove the annotation %s from all but one, or select different namespaces", listNamespaces(slices.Compact(shared)), strings.Join(names, ", "), v1beta1.DefaultClassAnnotation)
}

// listNamespaces formats the first namespaces and the number of the others.
func listNamespaces(namespaces []string) string {
	text := "namespace " + strings.Join(namespaces[:min(len(namespaces), maxListed)], ", ")
	if more := len(namespaces) - maxListed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
