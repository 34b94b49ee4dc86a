package function

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
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

// references knows what Functions take from ConfigMaps and Secrets. Of all
// ConfigMaps it keeps names and versions, and of each Function a hash of the values
// that it refers to. Of Secrets it knows the version, where it may.
type references struct {
	versions cache.Cache
	live     client.Reader
	secrets  bool

	// pause is the least time between two changes of a Function's values, which
	// are rollouts; queue has the Functions to look at when theirs is over.
	pause time.Duration
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]

	mu    sync.Mutex
	known map[types.NamespacedName]known
}

// known is what a Function referred to when it was last looked at.
type known struct {
	refs, versions, values string

	// changed is when the values were last other ones; zero if they never were.
	changed time.Time
}

// defaultPause is long enough for what flaps to keep a function serving, and
// short enough to be waited for.
const defaultPause = 10 * time.Second

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
	r := &references{
		versions: versions, live: mgr.GetAPIReader(), secrets: s.WatchSecrets,
		pause: cmp.Or(s.ReferencePause.Duration, defaultPause), known: map[types.NamespacedName]known{},
	}
	b.WatchesRawSource(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		r.queue = queue // before the first reconcile
		return nil
	}))
	b.Watches(&v1beta1.Function{}, handler.Funcs{DeleteFunc: r.forget})
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
		if err := mgr.GetClient().List(ctx, &functions, client.InNamespace(obj.Namespace), client.MatchingFields{field: obj.Name}, unawaited); err != nil {
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

// forget drops what is known of a Function that is no more.
func (r *references) forget(_ context.Context, e event.DeleteEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	r.mu.Lock()
	delete(r.known, client.ObjectKeyFromObject(e.Object))
	r.mu.Unlock()
}

// hash is that of all values that a Function refers to; empty when it refers to
// none that can be watched. What is not there counts as well. The values are read
// again only when the version of something has changed, and not too soon after
// they were others: then the hash stays, and the Function is looked at again.
func (r *references) hash(ctx context.Context, fn *v1beta1.Function) (string, error) {
	refs := slices.DeleteFunc(desired.References(fn), func(ref desired.Reference) bool { return ref.Secret && !r.secrets })
	if len(refs) == 0 {
		return "", nil
	}
	versions, err := r.versionsOf(ctx, fn.Namespace, refs)
	if err != nil {
		return "", err
	}
	key, now := client.ObjectKeyFromObject(fn), known{refs: desired.Digest(refs), versions: desired.Digest(versions)}
	r.mu.Lock()
	last := r.known[key]
	r.mu.Unlock()
	if last.refs == now.refs {
		if last.versions == now.versions {
			return last.values, nil
		}
		if wait := time.Until(last.changed.Add(r.pause)); wait > 0 {
			r.queue.AddAfter(reconcile.Request{NamespacedName: key}, wait)
			return last.values, nil
		}
		now.changed = last.changed
	}
	if now.values, err = r.valuesOf(ctx, fn.Namespace, refs, versions); err != nil {
		return "", err
	}
	if last.refs == now.refs && last.values != now.values {
		now.changed = time.Now()
	}
	r.mu.Lock()
	r.known[key] = now
	r.mu.Unlock()
	return now.values, nil
}

// versionsOf are the versions of what is referred to; empty ones of what is not
// there.
func (r *references) versionsOf(ctx context.Context, namespace string, refs []desired.Reference) ([]string, error) {
	versions := make([]string, len(refs))
	for i, ref := range refs {
		object := metadata(configMaps)
		if ref.Secret {
			object = metadata(secrets)
		}
		err := r.versions.Get(ctx, types.NamespacedName{Namespace: namespace, Name: ref.Name}, object)
		if client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		if err == nil {
			versions[i] = string(object.UID) + object.ResourceVersion
		}
	}
	return versions, nil
}

// valuesOf is the hash of the values: of a Secret, its version. It reads each
// ConfigMap once, and holds one at a time: they may be large.
func (r *references) valuesOf(ctx context.Context, namespace string, refs []desired.Reference, versions []string) (string, error) {
	values, of := slices.Clone(versions), map[string][]int{}
	for i, ref := range refs {
		if !ref.Secret && versions[i] != "" {
			of[ref.Name] = append(of[ref.Name], i)
		}
	}
	for name, places := range of {
		var now corev1.ConfigMap
		if err := r.live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &now); client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("reading ConfigMap %q, which the environment comes from: %w", name, err)
		}
		whole := sync.OnceValue(func() string { return desired.Digest(now.Data) })
		for _, i := range places {
			values[i] = valueOf(&now, refs[i].Key, whole)
		}
	}
	return desired.Digest(values), nil
}

// valueOf is the hash of one value, or of all; empty when it is not there.
func valueOf(c *corev1.ConfigMap, key string, whole func() string) string {
	if key == "" {
		return whole()
	}
	value, ok := c.Data[key]
	if !ok {
		return ""
	}
	return desired.Digest(value)
}
