package function

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
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

// Fields by which Functions are found.
const (
	byConfigMap = "spec.configMaps"
	bySecret    = "spec.secrets"
)

var (
	configMaps = corev1.SchemeGroupVersion.WithKind("ConfigMap")
	secrets    = corev1.SchemeGroupVersion.WithKind("Secret")
)

// references knows what the ConfigMaps hold that Functions refer to. Of all
// ConfigMaps it keeps names and versions, and of those that are referred to a
// hash of each value. Of Secrets it knows the version, where it may.
type references struct {
	versions cache.Cache
	live     client.Reader
	secrets  bool

	mu    sync.Mutex
	known map[types.NamespacedName]configMap
}

// configMap is what is known of one version of a ConfigMap.
type configMap struct {
	version string
	values  map[string]string // hashes
}

// watchReferences makes a controller look at a Function when something that it
// refers to changes.
func watchReferences(mgr manager.Manager, s settings.Settings, b *builder.Builder) (*references, error) {
	versions, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultNamespaces: namespaces(s), DefaultTransform: onlyVersion,
	})
	if err != nil {
		return nil, err
	}
	if err := mgr.Add(versions); err != nil {
		return nil, err
	}
	r := &references{versions: versions, live: mgr.GetAPIReader(), secrets: s.WatchSecrets, known: map[types.NamespacedName]configMap{}}
	if err := r.watch(mgr, b, configMaps, byConfigMap, false); err != nil || !r.secrets {
		return r, err
	}
	return r, r.watch(mgr, b, secrets, bySecret, true)
}

func (r *references) watch(mgr manager.Manager, b *builder.Builder, kind schema.GroupVersionKind, field string, secrets bool) error {
	names := func(obj client.Object) []string { return desired.ReferencedNames(obj.(*v1beta1.Function), secrets) }
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &v1beta1.Function{}, field, names); err != nil {
		return err
	}
	referring := func(ctx context.Context, obj *metav1.PartialObjectMetadata) []reconcile.Request {
		var functions v1beta1.FunctionList
		if err := mgr.GetClient().List(ctx, &functions, client.InNamespace(obj.Namespace), client.MatchingFields{field: obj.Name}); err != nil {
			return nil // the cache is not there any more
		}
		var requests []reconcile.Request
		for _, fn := range functions.Items {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&fn)})
		}
		return requests
	}
	b.WatchesRawSource(source.Kind(r.versions, metadata(kind), handler.TypedEnqueueRequestsFromMapFunc(referring)))
	return nil
}

func metadata(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(kind)
	return obj
}

// onlyVersion keeps of an object what tells which it is.
func onlyVersion(obj any) (any, error) {
	if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
		m.ObjectMeta = metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion}
	}
	return obj, nil
}

// hash is that of all values that a Function refers to; empty when it refers to
// none that can be watched. What is not there counts as well.
func (r *references) hash(ctx context.Context, fn *v1beta1.Function) (string, error) {
	var values []string
	for _, ref := range desired.References(fn) {
		if ref.Secret && !r.secrets {
			continue
		}
		value, err := r.value(ctx, types.NamespacedName{Namespace: fn.Namespace, Name: ref.Name}, ref)
		if err != nil {
			return "", err
		}
		values = append(values, value)
	}
	if values == nil {
		return "", nil
	}
	return desired.Digest(values), nil
}

func (r *references) value(ctx context.Context, key types.NamespacedName, ref desired.Reference) (string, error) {
	kind := configMaps
	if ref.Secret {
		kind = secrets
	}
	version := metadata(kind)
	if err := r.versions.Get(ctx, key, version); err != nil {
		r.forget(key)
		return "", client.IgnoreNotFound(err)
	}
	if ref.Secret {
		return string(version.UID) + version.ResourceVersion, nil
	}
	values, err := r.configMap(ctx, key, version.ResourceVersion)
	if err != nil || ref.Key != "" {
		return values[ref.Key], err
	}
	return desired.Digest(values), nil
}

// configMap is the hash of each value of a ConfigMap, which is read again only
// when its version has changed.
func (r *references) configMap(ctx context.Context, key types.NamespacedName, version string) (map[string]string, error) {
	r.mu.Lock()
	known := r.known[key]
	r.mu.Unlock()
	if known.version == version {
		return known.values, nil
	}
	var now corev1.ConfigMap
	switch err := r.live.Get(ctx, key, &now); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading ConfigMap %q, which the environment comes from: %w", key.Name, err)
	}
	known = configMap{version: now.ResourceVersion, values: map[string]string{}}
	for name, value := range now.Data {
		known.values[name] = desired.Digest(value)
	}
	r.mu.Lock()
	r.known[key] = known
	r.mu.Unlock()
	return known.values, nil
}

func (r *references) forget(key types.NamespacedName) {
	r.mu.Lock()
	delete(r.known, key)
	r.mu.Unlock()
}
