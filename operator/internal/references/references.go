// Package references watches the ConfigMaps that the environment and the files of Functions refer
// to and, with the setting watchSecrets, the Secrets that their environment refers to. A change of
// their values triggers a rollout.
//
// The package has its own metadata cache, because the cache of the manager contains only ConfigMaps
// with the label of a Function, and no Secrets. The metadata cache does not contain the ConfigMaps
// with sources, which never change.
package references

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
)

var (
	configMaps = corev1.SchemeGroupVersion.WithKind("ConfigMap")
	secrets    = corev1.SchemeGroupVersion.WithKind("Secret")
)

// References computes, for each Function, a hash of the values that its environment and its files
// take from ConfigMaps and, if the settings allow it, that its environment takes from Secrets. It
// keeps the hash, and the names and versions of all ConfigMaps and Secrets.
type References struct {
	versions cache.Cache
	live     client.Reader
	secrets  bool

	// pause is the minimum time between two changes of a Function's hash, each of which triggers a
	// rollout.
	pause time.Duration

	known sync.Map // of known, by the names of Functions
}

// Values describes the values that the environment and the files of a Function take from ConfigMaps
// and Secrets.
type Values struct {
	// Hash is the hash of all values, including missing ones. It is empty if the Function refers to
	// nothing that is watched.
	Hash string

	// Changed names the objects that caused the last change of the hash, such as ConfigMap
	// "settings". It is empty if the hash has not changed since the operator started or since the
	// references of the Function changed.
	Changed []string

	// Delay is the time after which to call Of again: an object has changed too soon after the last
	// change of the hash, so Hash is not updated yet. It is 0 if Hash is current.
	Delay time.Duration
}

// known is the state of a Function when its values were last read.
type known struct {
	Values

	// refs and versions are hashes of the references and of the versions of their objects.
	refs, versions string

	// each is the hash of each value.
	each []string

	// since is when the values last changed; zero if they have not changed since the references
	// did.
	since time.Time
}

// Forget removes the state of a deleted Function.
func (r *References) Forget(fn types.NamespacedName) { r.known.Delete(fn) }

// Of returns the Values of a Function. It reads the values again only when the version of an object
// has changed, and only after the pause that follows each change of the hash.
func (r *References) Of(ctx context.Context, fn *v1beta1.Function) (Values, error) {
	refs := slices.DeleteFunc(desired.References(fn), func(ref desired.Reference) bool { return ref.Secret && !r.secrets })
	if len(refs) == 0 {
		return Values{}, nil
	}
	versions, err := r.versionsOf(ctx, fn.Namespace, refs)
	if err != nil {
		return Values{}, err
	}
	key, now := client.ObjectKeyFromObject(fn), known{refs: desired.Digest(refs), versions: desired.Digest(versions)}
	former, _ := r.known.Load(key)
	last, _ := former.(known)
	same := last.refs == now.refs
	if same && last.versions == now.versions {
		return last.Values, nil
	}
	if pause := time.Until(last.since.Add(r.pause)); same && pause > 0 {
		return Values{Hash: last.Hash, Changed: last.Changed, Delay: pause}, nil
	}
	if same {
		now.since, now.Changed = last.since, last.Changed
	}
	if now.each, err = r.valuesOf(ctx, fn.Namespace, refs, versions); err != nil {
		return Values{}, err
	}
	now.Hash = desired.Digest(now.each)
	if same && last.Hash != now.Hash {
		now.since, now.Changed = time.Now(), different(refs, last.each, now.each)
	}
	r.known.Store(key, now)
	return now.Values, nil
}

// different returns the names of the objects with changed values, without duplicates.
func different(refs []desired.Reference, before, now []string) (names []string) {
	for i, ref := range refs {
		kind := "ConfigMap"
		if ref.Secret {
			kind = "Secret"
		}
		if name := fmt.Sprintf("%s %q", kind, ref.Name); before[i] != now[i] && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// versionsOf returns the version of the object of each reference; empty if the object does not
// exist.
func (r *References) versionsOf(ctx context.Context, namespace string, refs []desired.Reference) ([]string, error) {
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

// valuesOf returns the hash of each value. It reads each object once and holds only one at a time,
// because objects may be large.
func (r *References) valuesOf(ctx context.Context, namespace string, refs []desired.Reference, versions []string) ([]string, error) {
	values, places := make([]string, len(refs)), map[desired.Reference][]int{}
	for i, ref := range refs {
		if versions[i] != "" {
			object := desired.Reference{Name: ref.Name, Secret: ref.Secret}
			places[object] = append(places[object], i)
		}
	}
	for object, at := range places {
		valueOf, err := r.read(ctx, types.NamespacedName{Namespace: namespace, Name: object.Name}, object.Secret)
		if err != nil {
			return nil, err
		}
		for _, i := range at {
			values[i] = valueOf(refs[i])
		}
	}
	return values, nil
}

// read reads a ConfigMap or Secret. It returns a function that maps a Reference to the hash of its
// value, or of all values if it names no key.
func (r *References) read(ctx context.Context, key types.NamespacedName, secret bool) (func(desired.Reference) string, error) {
	if secret {
		var now corev1.Secret
		if err := r.live.Get(ctx, key, &now); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading referenced Secret %q: %w", key.Name, err)
		}
		// The hash is visible on pods, also to users who may not read Secrets. The UID prevents
		// them from guessing the value by comparing hashes.
		salted := func(value any) string { return desired.Digest([]any{now.UID, value}) }
		return func(ref desired.Reference) string { return valueOf(now.Data, ref.Key, salted) }, nil
	}
	var now corev1.ConfigMap
	if err := r.live.Get(ctx, key, &now); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading referenced ConfigMap %q: %w", key.Name, err)
	}
	return func(ref desired.Reference) string {
		text := valueOf(now.Data, ref.Key, desired.Digest)
		if !ref.File || len(now.BinaryData) == 0 { // an environment does not contain binary data
			return text
		}
		return text + valueOf(now.BinaryData, ref.Key, desired.Digest)
	}, nil
}

// valueOf returns the hash of the value of a key, or of all values if key is empty. It returns ""
// if the key does not exist.
func valueOf[T any](data map[string]T, key string, hash func(any) string) string {
	if key == "" {
		return hash(data)
	}
	value, ok := data[key]
	if !ok {
		return ""
	}
	return hash(value)
}
