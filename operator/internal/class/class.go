// Package class resolves the FunctionClass of a Function. When a class changes, the package rolls
// the change out to a few functions at a time. Package desired applies a class to the pods.
//
//	class.go      resolves the class of a Function
//	conflict.go   finds namespaces with several default classes
//	rollout.go    selects the functions to roll out next; does not access the cluster
//	reconcile.go  the controller of FunctionClasses and their status
//	register.go   watches
package class

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/settings"
)

// Classes resolves the FunctionClasses of the cluster. It is disabled if the operator watches only
// some namespaces, because then it may not read cluster-scoped objects.
type Classes struct {
	client   client.Client // writes the status of classes
	cached   client.Reader // reads from the cache
	live     client.Reader // reads from the API server
	disabled bool

	// admitted sends the Functions that may be rolled out to the controller of Functions.
	admitted chan event.GenericEvent

	mu       sync.Mutex
	rollouts map[string]stagedRollout // by class name
}

// New returns Classes that read from the cache of the manager. It starts the informers on every
// replica, not only on the leader.
func New(mgr manager.Manager, s settings.Settings) (*Classes, error) {
	c := &Classes{
		client: mgr.GetClient(), cached: mgr.GetCache(), live: mgr.GetAPIReader(),
		disabled: len(s.Namespaces) > 0, admitted: make(chan event.GenericEvent), rollouts: map[string]stagedRollout{},
	}
	if c.disabled {
		return c, nil
	}
	for _, kind := range []client.Object{&v1beta1.FunctionClass{}, namespaces()} {
		if _, err := mgr.GetCache().GetInformer(context.Background(), kind); err != nil {
			return nil, fmt.Errorf("watching %T: %w", kind, err)
		}
	}
	return c, nil
}

// namespaces returns an object for the metadata of Namespaces.
func namespaces() *metav1.PartialObjectMetadata {
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return obj
}

// Of returns the class of a Function: the class that it names, or else the newest default class for
// its namespace. It returns nil if there is none. The field.Error reports an invalid
// spec.className.
func (c *Classes) Of(ctx context.Context, fn *v1beta1.Function) (*v1beta1.FunctionClass, *field.Error, error) {
	path, name := field.NewPath("spec", "className"), fn.Spec.ClassName
	switch {
	case c.disabled && name == "":
		return nil, nil, nil
	case c.disabled:
		return nil, field.Forbidden(path, "FunctionClasses are not available, because the operator manages only some namespaces; clear spec.className"), nil
	case name == "":
		class, err := c.defaultFor(ctx, fn.Namespace)
		return class, nil, err
	}
	class := &v1beta1.FunctionClass{}
	err := c.get(ctx, client.ObjectKey{Name: name}, class)
	if apierrors.IsNotFound(err) {
		return nil, field.Invalid(path, name, "FunctionClass not found; see kubectl get functionclasses"), nil
	}
	if err != nil {
		return nil, nil, err
	}
	allowed, err := c.allows(ctx, class, fn.Namespace)
	if err == nil && !allowed {
		return nil, field.Forbidden(path, fmt.Sprintf("FunctionClass %s does not select namespace %s; see its namespaceSelector", name, fn.Namespace)), nil
	}
	return class, nil, err
}

// defaultFor returns the default class of a namespace.
func (c *Classes) defaultFor(ctx context.Context, namespace string) (*v1beta1.FunctionClass, error) {
	var all v1beta1.FunctionClassList
	if err := c.cached.List(ctx, &all); err != nil {
		return nil, err
	}
	slices.SortFunc(all.Items, newestFirst)
	for _, class := range all.Items {
		if !class.IsDefault() {
			continue
		}
		if allowed, err := c.allows(ctx, &class, namespace); err != nil || allowed {
			return &class, err
		}
	}
	return nil, nil
}

// newestFirst sorts classes by creation time, newest first, and then by name. The class of a
// Function must not depend on the order in which the cache lists them.
func newestFirst(a, b v1beta1.FunctionClass) int {
	return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// allows reports whether Functions of a namespace may have a class. A class with an invalid
// selector can be stored while the webhook is unavailable. It allows no namespace and is not an
// error, because an error would affect Functions of other classes too.
func (c *Classes) allows(ctx context.Context, class *v1beta1.FunctionClass, namespace string) (bool, error) {
	if class.Spec.NamespaceSelector == nil {
		return true, nil
	}
	found := namespaces()
	if err := c.get(ctx, client.ObjectKey{Name: namespace}, found); err != nil {
		return false, fmt.Errorf("reading the labels of namespace %q: %w", namespace, err)
	}
	return selects(class, found.Labels), nil
}

// selects reports whether a class applies to namespaces with the given labels. A class with an
// invalid selector, which its status reports, applies to none.
func selects(class *v1beta1.FunctionClass, of labels.Set) bool {
	if class.Spec.NamespaceSelector == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(class.Spec.NamespaceSelector)
	return err == nil && selector.Matches(of)
}

// get reads an object from the cache, or from the API server if the cache does not contain it:
// users apply a class together with its Functions.
func (c *Classes) get(ctx context.Context, key client.ObjectKey, into client.Object) error {
	err := c.cached.Get(ctx, key, into)
	if apierrors.IsNotFound(err) {
		return c.live.Get(ctx, key, into)
	}
	return err
}

// Admits reports whether the staged rollout of its class allows a function to be updated now.
func (c *Classes) Admits(fn *v1beta1.Function, class *v1beta1.FunctionClass) bool {
	if class == nil {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.rollouts[class.Name]
	_, admitted := w.admitted[client.ObjectKeyFromObject(fn)]
	return admitted && w.hash == desired.ClassHash(&class.Spec)
}
