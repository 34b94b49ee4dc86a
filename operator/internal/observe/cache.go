package observe

import (
	"context"
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/activator/routing"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/settings"
)

// byFunction is the index of objects by the label of their Function. A label selector would scan
// the whole namespace. Indexing a kind also makes the manager fill its cache before the operator is
// ready, including in replicas that do not lead.
const byFunction = "metadata.labels.function"

// byScaleTarget is the index of HorizontalPodAutoscalers by the Deployment that they scale.
const byScaleTarget = "spec.scaleTargetRef.name"

// Index adds the indexes that an Observer needs to the cache.
func Index(indexer client.FieldIndexer) error {
	function := func(obj client.Object) []string {
		if name := obj.GetLabels()[desired.FunctionLabel]; name != "" {
			return []string{name}
		}
		return nil
	}
	var errs []error
	for _, kind := range []client.Object{
		&corev1.ConfigMap{}, &appsv1.Deployment{}, &corev1.Service{}, &policyv1.PodDisruptionBudget{}, &networkingv1.NetworkPolicy{},
		&autoscalingv2.HorizontalPodAutoscaler{}, &appsv1.ReplicaSet{}, &appsv1.ControllerRevision{}, &batchv1.Job{}, &corev1.Pod{}, &discoveryv1.EndpointSlice{},
	} {
		errs = append(errs, indexer.IndexField(context.Background(), kind, byFunction, function))
	}
	errs = append(errs, indexer.IndexField(context.Background(), &autoscalingv2.HorizontalPodAutoscaler{}, byScaleTarget, func(obj client.Object) []string {
		if name := ScaledDeployment(obj); name != "" {
			return []string{name}
		}
		return nil
	}))
	return errors.Join(errs...)
}

// ScaledDeployment returns the name of the Deployment that a HorizontalPodAutoscaler scales; empty if it
// scales another kind of object.
func ScaledDeployment(autoscaler client.Object) string {
	target := autoscaler.(*autoscalingv2.HorizontalPodAutoscaler).Spec.ScaleTargetRef
	if group, err := schema.ParseGroupVersion(target.APIVersion); err != nil || group.Group != appsv1.GroupName || target.Kind != "Deployment" {
		return ""
	}
	return target.Name
}

// CacheOptions returns the options of the cache. See byObject for its content.
func CacheOptions(s settings.Settings) (cache.Options, error) {
	objects, err := byObject(s)
	return cache.Options{DefaultNamespaces: Namespaces(s), ByObject: objects, ReaderFailOnMissingInformer: true}, err
}

// Namespaces returns the namespaces in the cache; nil for all namespaces.
func Namespaces(s settings.Settings) map[string]cache.Config {
	var all map[string]cache.Config
	for _, name := range s.Namespaces {
		if all == nil {
			all = map[string]cache.Config{}
		}
		all[name] = cache.Config{}
	}
	return all
}

// byObject returns what the cache contains: all Functions and HorizontalPodAutoscalers, all
// NetworkPolicies if the settings enable them, and of the other kinds the objects with the label
// goless.io/function. Of the EndpointSlices, it contains only those of the activator. Large fields
// that are not used are dropped.
func byObject(s settings.Settings) (map[client.Object]cache.ByObject, error) {
	label, err := labels.NewRequirement(desired.FunctionLabel, selection.Exists, nil)
	if err != nil {
		return nil, err
	}
	ours := labels.NewSelector().Add(*label)
	routes, err := labels.NewRequirement(discoveryv1.LabelManagedBy, selection.Equals, []string{routing.Manager})
	if err != nil {
		return nil, err
	}
	policies := ours
	if s.NetworkPolicy {
		policies = labels.Everything()
	}
	return map[client.Object]cache.ByObject{
		&v1beta1.Function{}:                      {Transform: reduced(withoutSource(s))},
		&corev1.ConfigMap{}:                      {Label: ours, Transform: reduced(Summarize)},
		&appsv1.Deployment{}:                     {Label: ours},
		&corev1.Service{}:                        {Label: ours},
		&policyv1.PodDisruptionBudget{}:          {Label: ours},
		&networkingv1.NetworkPolicy{}:            {Label: policies},
		&autoscalingv2.HorizontalPodAutoscaler{}: {Transform: reduced(targetOnly)},
		&appsv1.ReplicaSet{}:                     {Label: ours, Transform: reduced(withoutTemplate)},
		&batchv1.Job{}:                           {Label: ours, Transform: cache.TransformStripManagedFields()},
		&appsv1.ControllerRevision{}:             {Label: ours, Transform: reduced(withoutData)},
		&corev1.Pod{}:                            {Label: ours, Transform: reduced(withoutSpec)},
		&discoveryv1.EndpointSlice{}:             {Label: ours.Add(*routes), Transform: cache.TransformStripManagedFields()},
	}, nil
}

// reduced returns a cache transform that calls reduce for each object of a type.
func reduced[T client.Object](reduce func(T)) toolscache.TransformFunc {
	return func(obj any) (any, error) {
		if typed, ok := obj.(T); ok {
			reduce(typed)
		}
		return obj, nil
	}
}

// withoutSource replaces the source of a Function with its summary, and drops the annotations that
// the operator does not use: kubectl apply and other clients keep copies of the source there.
func withoutSource(s settings.Settings) func(fn *v1beta1.Function) {
	return func(fn *v1beta1.Function) {
		fn.ManagedFields = nil
		fn.Annotations = desired.Annotations(fn, s)
		if fn.Spec.Function != "" {
			fn.Spec.Summary = new(desired.Summary(fn))
			fn.Spec.Function = ""
		}
	}
}

// targetOnly drops the fields of a HorizontalPodAutoscaler without the label goless.io/function,
// except for its scale target.
func targetOnly(a *autoscalingv2.HorizontalPodAutoscaler) {
	a.Status = autoscalingv2.HorizontalPodAutoscalerStatus{}
	if a.Labels[desired.FunctionLabel] == "" {
		a.Annotations, a.ManagedFields = nil, nil
		a.Spec = autoscalingv2.HorizontalPodAutoscalerSpec{ScaleTargetRef: a.Spec.ScaleTargetRef}
	}
}

// withoutTemplate drops the selector, the pod template and the managed fields of a ReplicaSet,
// which the operator does not use.
func withoutTemplate(rs *appsv1.ReplicaSet) {
	rs.ManagedFields = nil
	rs.Spec.Selector, rs.Spec.Template = nil, corev1.PodTemplateSpec{}
}

// withoutData drops the data of a ControllerRevision, and from its managed fields the names of the
// fields.
func withoutData(record *appsv1.ControllerRevision) {
	record.Data = runtime.RawExtension{}
	for i := range record.ManagedFields {
		record.ManagedFields[i].FieldsV1 = nil
	}
}

// withoutSpec drops the spec, the annotations and the managed fields of a pod, which the operator
// does not use.
func withoutSpec(pod *corev1.Pod) {
	pod.Annotations, pod.ManagedFields = nil, nil
	pod.Spec = corev1.PodSpec{}
}
