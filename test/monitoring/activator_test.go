package monitoring

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/test/faults/plane"
)

func newClient(t *testing.T, p *plane.Plane) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1beta1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(p.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// wakeful repeatedly puts a function to sleep and wakes it with a request, until the test ends.
func wakeful(t *testing.T, p *plane.Plane) {
	t.Helper()
	c := newClient(t, p)
	function := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(function.Close)
	s := sleeper{c, "wakeful", "127.0.0.1"}
	fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: "wakeful", Name: "sleeper"}}
	fn.Spec.Function = fmt.Sprintf(good, 1)
	fn.Spec.ServerPort = int32(function.Listener.Addr().(*net.TCPAddr).Port)
	fn.Spec.Scaling = &v1beta1.Scaling{Min: new(int32(0))}
	if err := errors.Join(c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fn.Namespace}}), c.Create(t.Context(), fn)); err != nil {
		t.Fatal(err)
	}
	// The operator lets a function sleep only after it has served.
	eventually(t, "the function serves before it sleeps", func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(fn), fn); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(fn.Status.Conditions, v1beta1.ConditionReady) {
			return fmt.Errorf("its conditions are %v", fn.Status.Conditions)
		}
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	var cycle sync.WaitGroup
	cycle.Go(func() {
		for ctx.Err() == nil {
			if err := s.wake(ctx); err != nil && ctx.Err() == nil {
				t.Logf("waking a function: %v", err)
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	t.Cleanup(func() {
		cancel()
		cycle.Wait()
	})
}

// loaded creates a function that scales on requests, and a server for its pods, which reports
// requests in flight until the test ends.
func loaded(t *testing.T, p *plane.Plane) {
	t.Helper()
	c := newClient(t, p)
	s := sleeper{c, "loaded", "127.0.8.1"}
	l, err := net.Listen("tcp", net.JoinHostPort(s.ip, strconv.Itoa(v1beta1.AdminPort)))
	if err != nil {
		t.Fatal(err)
	}
	pods := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"inFlight":7}`)
	}))
	_ = pods.Listener.Close() // cannot fail
	pods.Listener = l
	pods.Start()
	t.Cleanup(pods.Close)
	fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "counted"}}
	fn.Spec.Function = fmt.Sprintf(good, 1)
	fn.Spec.Scaling = &v1beta1.Scaling{Max: new(int32(3)), Requests: new(int32(10))}
	if err := errors.Join(c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}), c.Create(t.Context(), fn)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var addresses sync.WaitGroup
	addresses.Go(func() { s.address(ctx) })
	t.Cleanup(func() {
		cancel()
		addresses.Wait()
	})
}

// sleeper is the function of a namespace, whose pods get an IP address.
type sleeper struct {
	client.Client
	namespace, ip string
}

// wake deletes the pods of the function, and sends a request to the activator. It times out
// after a minute.
func (s sleeper) wake(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	zero := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":0}}`))
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "wakeful", Name: "sleeper"}}
	if err := s.SubResource("scale").Patch(ctx, d, zero); err != nil {
		return err
	}
	for n := -1; n != 0; time.Sleep(100 * time.Millisecond) {
		pods, err := s.pods(ctx)
		if n = len(pods); err != nil {
			return err
		}
	}
	var slice discoveryv1.EndpointSlice
	if err := s.Get(ctx, client.ObjectKey{Namespace: "wakeful", Name: "sleeper-activator"}, &slice); err != nil {
		return err
	}
	go s.address(ctx)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/", *slice.Ports[0].Port), nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	if response.StatusCode != http.StatusNotFound {
		return fmt.Errorf("it answers %s", response.Status)
	}
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

func (s sleeper) pods(ctx context.Context) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := s.List(ctx, &list, client.InNamespace(s.namespace))
	return list.Items, err
}

// address gives the pods of the function an address, as a node does.
func (s sleeper) address(ctx context.Context) {
	here := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"status":{"podIP":%q,"podIPs":[{"ip":%q}]}}`, s.ip, s.ip))
	for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		pods, _ := s.pods(ctx) // empty after an error; retried
		for i := range pods {
			if pods[i].Status.PodIP == "" {
				_ = s.Status().Patch(ctx, &pods[i], here) // retried
			}
		}
	}
}
