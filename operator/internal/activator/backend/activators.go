package backend

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// CacheActivators adds a cache of the activator's own pods to the manager. The cache
// of the manager does not contain them: it selects the pods of functions by label.
func CacheActivators(mgr manager.Manager, namespace string) (cache.Cache, error) {
	replicas, err := cache.New(mgr.GetConfig(), cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(),
		DefaultNamespaces:    map[string]cache.Config{namespace: {}},
		DefaultLabelSelector: labels.SelectorFromSet(labels.Set{"app.kubernetes.io/name": "goless-activator"}),
		DefaultTransform:     cache.TransformStripManagedFields(),
	})
	if err != nil {
		return nil, fmt.Errorf("creating the cache of the activator's pods: %w", err)
	}
	return replicas, mgr.Add(replicas)
}

// ActivatorServes reports whether a pod of the activator is ready and not being deleted.
func ActivatorServes(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && p.Status.PodIP != "" && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
