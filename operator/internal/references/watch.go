package references

import (
	"cmp"
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/settings"
)

// Index fields of Functions.
const (
	byConfigMap = "spec.configMaps"
	bySecret    = "spec.secrets"
)

// defaultPause is long enough for a function to keep serving while a value changes repeatedly, and
// short enough for users to wait for.
const defaultPause = 10 * time.Second

// Watch makes a controller reconcile a Function when an object that it refers to changes.
// namespaces are the watched namespaces; nil means all.
func Watch(mgr manager.Manager, namespaces map[string]cache.Config, s settings.Settings, b *builder.Builder) (*References, error) {
	noSource, err := labels.NewRequirement(desired.RevisionLabel, selection.DoesNotExist, nil)
	if err != nil {
		return nil, err
	}
	versions, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultNamespaces: namespaces, DefaultTransform: onlyVersion,
		ByObject: map[client.Object]cache.ByObject{metadata(configMaps): {Label: labels.NewSelector().Add(*noSource)}},
	})
	if err != nil {
		return nil, err
	}
	if err := mgr.Add(versions); err != nil {
		return nil, err
	}
	r := &References{
		versions: versions, live: mgr.GetAPIReader(), secrets: s.WatchSecrets,
		pause: cmp.Or(s.ReferencePause.Duration, defaultPause),
	}
	if err := r.watch(mgr, b, configMaps, byConfigMap, false); err != nil || !r.secrets {
		return r, err
	}
	return r, r.watch(mgr, b, secrets, bySecret, true)
}

func (r *References) watch(mgr manager.Manager, b *builder.Builder, kind schema.GroupVersionKind, field string, secrets bool) error {
	names := func(obj client.Object) []string { return desired.ReferencedNames(obj.(*v1beta1.Function), secrets) }
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &v1beta1.Function{}, field, names); err != nil {
		return err
	}
	b.WatchesRawSource(source.Kind(r.versions, metadata(kind), handler.TypedEnqueueRequestsFromMapFunc(functionsBy(mgr, field))))
	return nil
}

// functionsBy maps an object to the Functions that have its name in an indexed field.
func functionsBy(mgr manager.Manager, field string) handler.TypedMapFunc[*metav1.PartialObjectMetadata, reconcile.Request] {
	return func(ctx context.Context, obj *metav1.PartialObjectMetadata) []reconcile.Request {
		var functions v1beta1.FunctionList
		if err := mgr.GetClient().List(ctx, &functions, client.InNamespace(obj.Namespace), client.MatchingFields{field: obj.Name}, client.DisableReadYourWritesConsistency); err != nil {
			return nil // the cache has stopped
		}
		var requests []reconcile.Request
		for _, fn := range functions.Items {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&fn)})
		}
		return requests
	}
}

func metadata(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(kind)
	return obj
}

// onlyVersion removes everything from the metadata of an object except its name, UID and version.
func onlyVersion(obj any) (any, error) {
	if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
		m.ObjectMeta = metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion}
	}
	return obj, nil
}
