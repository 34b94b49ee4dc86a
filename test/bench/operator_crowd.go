package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/test/faults/plane"
)

const (
	// workers is how many objects are created at the same time.
	workers = 8
)

// errSlow is why the benchmark waits for many objects no longer.
var errSlow = errors.New("it took too long")

// crowd creates many objects, and counts them.
type crowd struct {
	session *session
	client  client.Client

	// patience is how long anything may take with all the Functions.
	patience time.Duration

	// account has the rights of the operator, and no more.
	account client.Client
}

func newCrowd(p *plane.Plane, s *session) (*crowd, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1beta1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	c, err := client.New(p.Config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	config := rest.CopyConfig(p.Config)
	_, config.BearerToken = p.Upstream()
	account, err := client.New(config, client.Options{Scheme: scheme, Mapper: c.RESTMapper()})
	patience := 5 * time.Minute
	if s.full {
		patience = 40 * time.Minute
	}
	return &crowd{session: s, client: c, account: account, patience: patience}, err
}

// aSource is the source of a Function, of 4 KiB.
func aSource(n int) string {
	return fmt.Sprintf("package f\n\nimport \"net/http\"\n\nfunc Handler(w http.ResponseWriter, r *http.Request) {}\n\n// %d %s\n", n, strings.Repeat("x", 4000))
}

// functions creates Functions in a namespace, numbered from one number to the one
// before another, and does something with each of them, if there is something.
func (c *crowd) functions(ctx context.Context, ns string, from, to int, do func(*v1beta1.Function) error) error {
	if err := c.namespace(ctx, ns); err != nil {
		return err
	}
	return each(from, to, func(n int) error {
		fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprintf("function-%d", n)}}
		fn.Spec.Function = aSource(n)
		if err := c.client.Create(ctx, fn); err != nil || do == nil {
			return err
		}
		return do(fn)
	})
}

// copies writes for a Function what the operator has made for another one.
func (c *crowd) copies(ctx context.Context, fn *v1beta1.Function, model []client.Object) error {
	for _, one := range model {
		text, err := json.Marshal(one)
		if err != nil {
			return err
		}
		object := one.DeepCopyObject().(client.Object)
		if err := json.Unmarshal([]byte(strings.ReplaceAll(string(text), "function-0", fn.Name)), object); err != nil {
			return err
		}
		object.SetNamespace(fn.Namespace)
		object.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(fn, v1beta1.GroupVersion.WithKind("Function"))})
		if err := c.account.Create(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// model makes sure that there is a Function, waits until the operator has made
// its objects, and returns them as a plain client would create them.
func (c *crowd) model(ctx context.Context) ([]client.Object, error) {
	if err := c.clear(ctx, "model"); err != nil {
		return nil, err
	}
	if err := c.functions(ctx, "model", 0, 1, nil); err != nil {
		return nil, err
	}
	if err := c.await(ctx, func() (bool, error) { return c.complete(ctx, "model", 1) }); err != nil {
		return nil, err
	}
	var model []client.Object
	for _, list := range lists() {
		if err := c.client.List(ctx, list, client.InNamespace("model"), client.HasLabels{"goless.io/function"}); err != nil {
			return nil, err
		}
		switch l := list.(type) {
		case *corev1.ConfigMapList:
			model = append(model, &l.Items[0])
		case *appsv1.DeploymentList:
			model = append(model, &l.Items[0])
		case *corev1.ServiceList:
			l.Items[0].Spec.ClusterIP, l.Items[0].Spec.ClusterIPs = "", nil
			model = append(model, &l.Items[0])
		}
	}
	for _, object := range model {
		object.SetResourceVersion("")
		object.SetUID("")
		object.SetManagedFields(nil)
	}
	return model, nil
}

// lists are empty lists of what a Function becomes.
func lists() []client.ObjectList {
	return []client.ObjectList{&corev1.ConfigMapList{}, &appsv1.DeploymentList{}, &corev1.ServiceList{}}
}

// complete tells whether as many objects of each kind are in a namespace as there
// are Functions.
func (c *crowd) complete(ctx context.Context, ns string, n int) (bool, error) {
	for _, list := range lists() {
		partial := &metav1.PartialObjectMetadataList{}
		gvk, err := c.client.GroupVersionKindFor(list)
		if err != nil {
			return false, err
		}
		partial.SetGroupVersionKind(gvk)
		// A cached list suffices; the count only grows.
		if err := c.client.List(ctx, partial, client.InNamespace(ns), client.HasLabels{"goless.io/function"},
			&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}}); err != nil {
			return false, err
		}
		if len(partial.Items) < n {
			return false, nil
		}
	}
	return true, nil
}

// left counts what carries the label of Functions with one of the names.
func (c *crowd) left(ctx context.Context, ns string, names map[string]bool) (int, error) {
	left := 0
	for _, list := range append(lists(), &appsv1.ReplicaSetList{}, &corev1.PodList{}, &policyv1.PodDisruptionBudgetList{}) {
		partial := &metav1.PartialObjectMetadataList{}
		gvk, err := c.client.GroupVersionKindFor(list)
		if err != nil {
			return 0, err
		}
		partial.SetGroupVersionKind(gvk)
		if err := c.client.List(ctx, partial, client.InNamespace(ns), client.HasLabels{"goless.io/function"}); err != nil {
			return 0, err
		}
		for _, object := range partial.Items {
			if names[object.Labels["goless.io/function"]] {
				left++
			}
		}
	}
	return left, nil
}

// serving tells whether so many Functions are ready, and shows how many are.
func (c *crowd) serving(ctx context.Context, ns string, n int) (bool, error) {
	var list v1beta1.FunctionList
	if err := c.client.List(ctx, &list, client.InNamespace(ns)); err != nil {
		return false, err
	}
	serving := 0
	for _, fn := range list.Items {
		if isReady(&fn) {
			serving++
		}
	}
	c.session.progress.say("%d of %d are ready", serving, n)
	return serving >= n, nil
}

// clear deletes what there is of Functions in a namespace.
func (c *crowd) clear(ctx context.Context, ns string) error {
	for _, kind := range []client.Object{&v1beta1.Function{}, &appsv1.Deployment{}, &corev1.ConfigMap{}, &corev1.Service{}} {
		if err := c.client.DeleteAllOf(ctx, kind, client.InNamespace(ns), client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			return err
		}
	}
	return nil
}

func (c *crowd) namespace(ctx context.Context, ns string) error {
	err := c.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// await asks again and again until something holds. It asks for a tenth of the
// time at most, so as not to be what is measured.
func (c *crowd) await(ctx context.Context, holds func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.patience, errSlow)
	defer cancel()
	for {
		asked := time.Now()
		done, err := holds()
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(max(200*time.Millisecond, 9*time.Since(asked))):
		}
	}
}

// each calls do for each number, several at the same time, and returns the first
// error.
func each(from, to int, do func(n int) error) error {
	numbers, errs := make(chan int), make(chan error, workers)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for n := range numbers {
				if err := do(n); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	var err error
	for n := from; n < to && err == nil; n++ {
		select {
		case numbers <- n:
		case err = <-errs:
		}
	}
	close(numbers)
	all.Wait()
	select {
	case err = <-errs:
	default:
	}
	return err
}
