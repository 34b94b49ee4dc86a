// Package class tells which FunctionClass a Function has. When a class changes, it lets the functions
// of the class roll out a few at a time. What a class does to pods is in package desired.
//
//	class.go      which class a Function has
//	conflict.go   which namespaces have several default classes
//	wave.go       which functions of a class may be rolled out, decided without reading anything
//	reconcile.go  the controller of classes, and their status
//	register.go   what is watched
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

// Classes are the FunctionClasses of the cluster. An operator of single namespaces has none,
// because it may not read what belongs to the whole cluster.
type Classes struct {
	client   client.Client // writes the status of classes
	cached   client.Reader // reads from the cache
	live     client.Reader // reads from the API server
	disabled bool

	// admitted tells the controller of Functions which ones may be rolled out.
	admitted chan event.GenericEvent

	mu    sync.Mutex
	waves map[string]wave // by the names of classes
}

// New returns the classes that a manager reads. Every replica has them in its cache, whether it
// leads or not.
func New(mgr manager.Manager, s settings.Settings) (*Classes, error) {
	c := &Classes{
		client: mgr.GetClient(), cached: mgr.GetCache(), live: mgr.GetAPIReader(),
		disabled: len(s.Namespaces) > 0, admitted: make(chan event.GenericEvent), waves: map[string]wave{},
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

// namespaces returns an object for Namespaces, of which only the metadata is read.
func namespaces() *metav1.PartialObjectMetadata {
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return obj
}

// Of returns the class of a Function: the one that it names, or else the newest default class for its
// namespace. It returns nil if there is none. The second result says what is wrong with
// spec.className.
func (c *Classes) Of(ctx context.Context, fn *v1beta1.Function) (*v1beta1.FunctionClass, *field.Error, error) {
	path, name := field.NewPath("spec", "className"), fn.Spec.ClassName
	switch {
	case c.disabled && name == "":
		return nil, nil, nil
	case c.disabled:
		return nil, field.Forbidden(path, "the operator looks after single namespaces here and knows no classes: leave it out"), nil
	case name == "":
		class, err := c.defaultFor(ctx, fn.Namespace)
		return class, nil, err
	}
	class := &v1beta1.FunctionClass{}
	err := c.get(ctx, client.ObjectKey{Name: name}, class)
	if apierrors.IsNotFound(err) {
		return nil, field.Invalid(path, name, "there is no such FunctionClass: kubectl get functionclasses shows those that there are"), nil
	}
	if err != nil {
		return nil, nil, err
	}
	allowed, err := c.allows(ctx, class, fn.Namespace)
	if err == nil && !allowed {
		return nil, field.Forbidden(path, fmt.Sprintf("the FunctionClass %s is not for the namespace %s: its namespaceSelector says for which", name, fn.Namespace)), nil
	}
	return class, nil, err
}

// defaultFor returns the class of the Functions of a namespace that name none.
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

// newestFirst compares classes by their age, and by their names if they were created in the same
// second: the cache lists them in any order, on which the class of a Function must not depend.
func newestFirst(a, b v1beta1.FunctionClass) int {
	return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// allows tells whether Functions of a namespace may have a class. A class with an invalid selector
// can be stored while the webhook does not answer. It is no error, because that would stop the
// Functions of other classes as well.
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

// selects reports whether a class is for namespaces with some labels. One with an invalid selector,
// which its status reports, is for none.
func selects(class *v1beta1.FunctionClass, of labels.Set) bool {
	if class.Spec.NamespaceSelector == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(class.Spec.NamespaceSelector)
	return err == nil && selector.Matches(of)
}

// get reads an object from the cache, and from the API server if the cache does not have it:
// people apply a class and Functions of it together.
func (c *Classes) get(ctx context.Context, key client.ObjectKey, into client.Object) error {
	err := c.cached.Get(ctx, key, into)
	if apierrors.IsNotFound(err) {
		return c.live.Get(ctx, key, into)
	}
	return err
}

// Admits tells whether a function may be rolled out now because of the class that it has.
func (c *Classes) Admits(fn *v1beta1.Function, class *v1beta1.FunctionClass) bool {
	if class == nil {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.waves[class.Name]
	_, admitted := w.admitted[client.ObjectKeyFromObject(fn)]
	return admitted && w.hash == desired.ClassHash(&class.Spec)
}
