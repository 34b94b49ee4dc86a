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
	// workers is the number of objects that are created concurrently.
	workers = 8
)

// errSlow is the cause when the benchmark stops waiting for many objects.
var errSlow = errors.New("it took too long")

// crowd creates many objects, and counts them.
type crowd struct {
	session *session
	client  client.Client

	// patience is the timeout of a step with all Functions.
	patience time.Duration

	// account has only the permissions of the operator.
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

// aSource returns the source of a Function, of 4 KiB.
func aSource(n int) string {
	return fmt.Sprintf("package f\n\nimport \"net/http\"\n\nfunc Handler(w http.ResponseWriter, r *http.Request) {}\n\n// %d %s\n", n, strings.Repeat("x", 4000))
}

// functions creates the Functions with numbers from one number up to, but not including,
// another, and calls a function with each of them, if it is not nil.
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

// copies writes for a Function the objects that the operator has created for another one.
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

// model creates a Function if necessary, waits until the operator has created its objects, and
// returns them as a plain client would create them.
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

// lists returns empty lists of the kinds of a Function's objects.
func lists() []client.ObjectList {
	return []client.ObjectList{&corev1.ConfigMapList{}, &appsv1.DeploymentList{}, &corev1.ServiceList{}}
}

// complete reports whether a namespace has as many objects of each kind as Functions.
func (c *crowd) complete(ctx context.Context, ns string, n int) (bool, error) {
	for _, list := range lists() {
		partial := &metav1.PartialObjectMetadataList{}
		gvk, err := c.client.GroupVersionKindFor(list)
		if err != nil {
			return false, err
		}
		partial.SetGroupVersionKind(gvk)
		// A cached list is sufficient, because the count only grows.
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

// left counts the objects with the label of Functions with one of the names.
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

// serving reports whether a number of Functions are ready, and prints how many are.
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

// clear deletes the Functions in a namespace and their objects.
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

// await polls until a condition holds. It uses at most a tenth of the time for that, to limit
// its effect on the measurement.
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

// each calls do for each number, several at a time, and returns the first error.
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
