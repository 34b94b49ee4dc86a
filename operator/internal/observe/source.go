package observe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/builder/handler"
	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/settings"
	"goless.io/operator/internal/validation"
)

// Sources reads the sources of Functions from the API server. The cache contains only a summary of
// each, because a thousand large sources need more memory than the operator has. A source is read
// to validate it (once), to write its ConfigMap, and to request its build.
type Sources struct {
	// Live reads from the API server.
	Live client.Reader

	checked sync.Map // of verdict, by the names of Functions
}

// verdict is the result of validating a source.
type verdict struct {
	sha256  string
	refused *handler.Error
}

// Load sets the source of a Function that was read from the cache. It reads the source from the API
// server: from the Function, or from the ConfigMap of a former revision. It keeps the summary, and
// does not compute it again, because that may parse the source, without the limit of package
// validation. The error is a conflict if the source has changed in the meantime
// or no longer exists.
func (s *Sources) Load(ctx context.Context, fn *v1beta1.Function) error {
	if fn.Spec.Summary == nil || fn.Spec.Function != "" {
		return nil
	}
	for _, from := range []func(context.Context, *v1beta1.Function) (string, error){s.cached, s.latest, s.former} {
		source, err := from(ctx, fn)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading the source: %w", err)
		}
		if sum := sha256.Sum256([]byte(source)); err == nil && hex.EncodeToString(sum[:]) == fn.Spec.Summary.SHA256 {
			fn.Spec.Function = source
			return nil
		}
	}
	return apierrors.NewConflict(v1beta1.GroupVersion.WithResource("functions").GroupResource(), fn.Name, errors.New("the source has changed"))
}

// Loader returns a function that loads the source of a Function. If fn has a summary, the returned
// function does not keep the source in memory, but reads it from the API server at each call.
func (s *Sources) Loader(fn *v1beta1.Function) func(context.Context) (string, error) {
	fn = fn.DeepCopy()
	if fn.Spec.Summary != nil {
		fn.Spec.Function = ""
	}
	return func(ctx context.Context) (string, error) {
		loaded := fn.DeepCopy()
		err := s.Load(ctx, loaded)
		return loaded.Spec.Function, err
	}
}

// cached reads the source from the watch cache of the API server, which is cheaper than a read from
// etcd. It may be an older source: there may be several API servers, and another one is watched.
func (s *Sources) cached(ctx context.Context, fn *v1beta1.Function) (string, error) {
	source, _ := s.read(ctx, fn, &client.GetOptions{Raw: &metav1.GetOptions{ResourceVersion: "0"}})
	return source, nil // after an error, the source is read from etcd
}

func (s *Sources) latest(ctx context.Context, fn *v1beta1.Function) (string, error) {
	return s.read(ctx, fn)
}

func (s *Sources) read(ctx context.Context, fn *v1beta1.Function, options ...client.GetOption) (string, error) {
	var now v1beta1.Function
	err := s.Live.Get(ctx, client.ObjectKeyFromObject(fn), &now, options...)
	if err != nil || now.UID != fn.UID {
		return "", err
	}
	return now.Spec.Function, nil
}

func (s *Sources) former(ctx context.Context, fn *v1beta1.Function) (string, error) {
	var source corev1.ConfigMap
	key := client.ObjectKey{Namespace: fn.Namespace, Name: desired.ConfigMapName(fn, desired.LatestRevision(fn))}
	err := s.Live.Get(ctx, key, &source)
	if err != nil || !metav1.IsControlledBy(&source, fn) {
		return "", err
	}
	return source.Data[handler.Filename], nil
}

// check validates a Function. Each source is parsed once.
func (s *Sources) check(ctx context.Context, fn *v1beta1.Function, limits settings.Settings) (validation.Result, error) {
	key, sha256 := client.ObjectKeyFromObject(fn), desired.Summary(fn).SHA256
	if before, ok := s.checked.Load(key); ok && before.(verdict).sha256 == sha256 {
		found := validation.Spec(fn, limits)
		found.Source = before.(verdict).refused
		return found, nil
	}
	if err := s.Load(ctx, fn); err != nil {
		return unread(fn, limits, err)
	}
	found := validation.Function(fn, limits)
	if found.Source != nil {
		for i, d := range found.Source.Diagnostics { // they may be substrings of the source
			found.Source.Diagnostics[i].File, found.Source.Diagnostics[i].Message = strings.Clone(d.File), strings.Clone(d.Message)
		}
	}
	s.checked.Store(key, verdict{sha256, found.Source})
	return found, nil
}

// unread validates a Function whose source cannot be read because of err. A source is valid if the
// status reports it as valid: otherwise all functions would become unready if an operator starts
// while the API server rejects reads.
func unread(fn *v1beta1.Function, limits settings.Settings, err error) (validation.Result, error) {
	if fn.Status.LatestRevision == desired.LatestRevision(fn) {
		return validation.Spec(fn, limits), nil
	}
	return validation.Result{}, err
}

// Forget removes the state of a deleted Function.
func (s *Sources) Forget(fn types.NamespacedName) { s.checked.Delete(fn) }
