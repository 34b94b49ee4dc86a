package buildclient_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"goless.io/builder/buildapi"
	"goless.io/builder/buildapi/buildapitest"
	"goless.io/operator/internal/buildclient"
	"goless.io/operator/internal/buildclient/buildtest"
)

var (
	fn    = types.NamespacedName{Namespace: "team", Name: "f"}
	order = buildapi.Order{Namespace: "team", Source: "package handlers\n", Memory: 1 << 20}
)

// load returns the source of order.
func load(context.Context) (string, error) { return order.Source, nil }

// secrets is a fake API server with one Secret. Package function tests against a real one.
type secrets struct {
	client.Client
	seed    atomic.Pointer[[]byte]
	refused atomic.Bool
	reads   atomic.Int32
}

func (s *secrets) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	s.reads.Add(1)
	seed := s.seed.Load()
	switch {
	case s.refused.Load():
		return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, key.Name, fmt.Errorf("no right"))
	case seed == nil:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, key.Name)
	}
	into.(*corev1.Secret).Data = map[string][]byte{"seed": *seed}
	return nil
}

func (s *secrets) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	seed := object.(*corev1.Secret).Data["seed"]
	if !s.seed.CompareAndSwap(nil, &seed) {
		return apierrors.NewAlreadyExists(schema.GroupResource{Resource: "secrets"}, object.GetName())
	}
	return nil
}

func (s *secrets) keys() (*buildapi.Keys, error) {
	if seed := s.seed.Load(); seed != nil {
		return buildapi.NewKeys(*seed)
	}
	return nil, fmt.Errorf("no seed yet")
}

// bench contains the Orders under test and a fake build service.
type bench struct {
	*buildclient.Orders
	service *buildtest.Service
	secrets *secrets
	news    workqueue.TypedRateLimitingInterface[reconcile.Request]
}

func start(t *testing.T) *bench {
	t.Helper()
	b := &bench{secrets: &secrets{}}
	b.service = buildtest.New(b.secrets.keys)
	t.Cleanup(b.service.Close)
	b.order(t, b.service.URL)
	return b
}

// order creates the Orders for the service at a URL.
func (b *bench) order(t *testing.T, url string) {
	t.Helper()
	orders := buildclient.New(&buildclient.Service{URL: url, Namespace: "goless-system", Live: b.secrets, Client: b.secrets})
	b.Orders = orders // a test may replace them
	b.news = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	if err := b.Changed().Start(ctx, b.news); err != nil {
		t.Fatal(err)
	}
	go func() { defer close(ended); _ = orders.Start(ctx) }()
	t.Cleanup(func() { cancel(); <-ended; b.news.ShutDown() })
}

// If the build service is not installed, the error explains what to do.
func TestServiceNotInstalled(t *testing.T) {
	t.Parallel()
	b := &bench{secrets: &secrets{}}
	b.order(t, "https://goless-build.goless-system.invalid")
	answer := b.until(t, "there is trouble", func(a buildclient.Answer) bool { return a.Trouble != "" })
	for _, want := range []string{"goless-build.goless-system.invalid cannot be resolved", "deploy/50-build.yaml", "spec.build.strategy: InPod"} {
		if !strings.Contains(answer.Trouble, want) {
			t.Errorf("Trouble is %q, want %q in it", answer.Trouble, want)
		}
	}
}

// ask adds the order if necessary, cancels all others, and returns the answer.
func (b *bench) ask() buildclient.Answer {
	if !b.Has(fn, "1", order) {
		b.Add(fn, "1", order, "", load)
	}
	b.Keep(fn, []string{"1"})
	return b.Answers(fn)["1"]
}

// until calls ask for each event until holds returns true.
func (b *bench) until(t *testing.T, what string, holds func(buildclient.Answer) bool) buildclient.Answer {
	t.Helper()
	deadline := time.AfterFunc(time.Minute, b.news.ShutDown)
	defer deadline.Stop()
	for {
		answer := b.ask()
		if holds(answer) {
			return answer
		}
		request, down := b.news.Get()
		if down {
			t.Fatalf("timed out after 1m0s: %s; the answer is %+v", what, answer)
		}
		b.news.Done(request)
		if request.NamespacedName != fn {
			t.Errorf("unexpected event for %v", request)
		}
	}
}

func isBuilt(a buildclient.Answer) bool { return a.Binary != nil && len(a.Report) > 0 }

func TestOrder(t *testing.T) {
	b := start(t)
	answer := b.until(t, "it is built", isBuilt)
	keys, err := b.secrets.keys()
	if err != nil {
		t.Fatal(err)
	}
	key := b.service.Key(order)
	if got := answer.Binary; got.Key != key || got.Capability != keys.Capability(key) || got.PublicKey != keys.Public() || got.Service != b.service.URL {
		t.Errorf("the binary is %+v", got)
	}
	if string(answer.Report) != buildtest.Built || answer.Trouble != "" {
		t.Errorf("the answer is %+v", answer)
	}
	if n := len(b.service.Orders("team")); n != 1 {
		t.Errorf("%d orders, want 1", n)
	}
}

// An answer reports since when a build is queued, and no longer when it has started.
func TestWaiting(t *testing.T) {
	b := start(t)
	begin, hold := make(chan struct{}), make(chan struct{})
	b.service.Set(t, func(buildapi.Order) buildtest.Reply {
		return buildtest.Reply{Begin: begin, Hold: hold, Report: buildtest.Built}
	})
	before := time.Now()
	answer := b.until(t, "it waits", func(a buildclient.Answer) bool { return !a.Waiting.IsZero() })
	if answer.Waiting.Before(before) || answer.Waiting.After(time.Now()) {
		t.Errorf("queued since %s, ordered after %s", answer.Waiting, before)
	}
	close(begin)
	b.until(t, "it has begun", func(a buildclient.Answer) bool { return a.Waiting.IsZero() })
	close(hold)
	b.until(t, "it is built", isBuilt)
}

// Repeated calls cause one order, which is canceled when it is no longer kept.
func TestSingleFlight(t *testing.T) {
	b := start(t)
	hold := make(chan struct{})
	b.service.Set(t, func(buildapi.Order) buildtest.Reply {
		return buildtest.Reply{Hold: hold, Report: buildtest.Built}
	})
	b.ask()
	eventually(t, "order sent", func() bool { return len(b.service.Orders("team")) > 0 })
	for range 20 {
		b.ask()
	}
	if b.Has(fn, "2", order) {
		t.Error("an order exists that was not added")
	}
	b.Keep(fn, nil)
	eventually(t, "order canceled in the service", func() bool { return b.service.Canceled() == 1 })
	if b.Has(fn, "1", order) || len(b.Answers(fn)) > 0 {
		t.Error("the order still exists")
	}
	if n := len(b.service.Orders("team")); n != 1 {
		t.Errorf("%d orders, want 1", n)
	}
}

// An order with other limits replaces the previous one.
func TestChangedOrder(t *testing.T) {
	b := start(t)
	b.service.Set(t, func(o buildapi.Order) buildtest.Reply {
		if o.Memory < 2<<20 {
			return buildtest.Reply{Report: `{"reason":"BuildOutOfMemory"}`}
		}
		return buildtest.Reply{Report: buildtest.Built}
	})
	b.until(t, "it has failed", func(a buildclient.Answer) bool { return len(a.Report) > 0 })
	before := order
	order.Memory = 2 << 20
	t.Cleanup(func() { order = before })
	b.until(t, "it is built", isBuilt)
}

// A failure of the service is retried. A source that does not compile is ordered once.
func TestFailures(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.service.Set(t, func(buildapi.Order) buildtest.Reply {
		return buildtest.Reply{Report: `{"reason":"BuildFailed","message":"no space left"}`}
	})
	b.until(t, "it fails in the end", func(a buildclient.Answer) bool { return len(a.Report) > 0 && a.Binary == nil })
	eventually(t, "order sent again", func() bool { return len(b.service.Orders("team")) > 1 })
	b.service.Set(t, func(buildapi.Order) buildtest.Reply { return buildtest.Reply{Report: `{"reason":"CompileFailed"}`} })
	b.until(t, "it does not compile", func(a buildclient.Answer) bool { return bytes.Contains(a.Report, []byte("CompileFailed")) })
}

// An error of the service is reported once with a constant text, until it is resolved.
func TestTrouble(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reply buildtest.Reply
		want  string
	}{
		"Busy":    {buildtest.Reply{Status: http.StatusServiceUnavailable}, "status 503 Service Unavailable: not now"},
		"Full":    {buildtest.Reply{Status: http.StatusTooManyRequests}, "too many requests"},
		"Refused": {buildtest.Reply{Status: http.StatusBadRequest}, "status 400 Bad Request: not now"},
		"Broken":  {buildtest.Reply{}, "the response ended before the build finished"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t)
			b.service.Set(t, func(buildapi.Order) buildtest.Reply { return test.reply })
			first := b.until(t, "there is trouble", func(a buildclient.Answer) bool { return a.Trouble != "" })
			if !strings.HasPrefix(first.Trouble, "the build service has been unavailable since 20") || !strings.Contains(first.Trouble, test.want) {
				t.Errorf("Trouble is %q", first.Trouble)
			}
			tries := len(b.service.Orders("team"))
			eventually(t, "order sent again", func() bool { return len(b.service.Orders("team")) > tries })
			if a := b.until(t, "there still is", func(a buildclient.Answer) bool { return a.Trouble != "" }); a.Trouble != first.Trouble {
				t.Errorf("Trouble changes: %q, %q", first.Trouble, a.Trouble)
			}
			b.service.Set(t, func(buildapi.Order) buildtest.Reply { return buildtest.Reply{Report: buildtest.Built} })
			if a := b.until(t, "it is built", isBuilt); a.Trouble != "" {
				t.Errorf("Trouble is still %q", a.Trouble)
			}
		})
	}
}

// The error is cleared as soon as the service accepts the order.
func TestTroubleClearedWhileBuilding(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.service.Set(t, func(buildapi.Order) buildtest.Reply { return buildtest.Reply{Status: http.StatusServiceUnavailable} })
	b.until(t, "there is trouble", func(a buildclient.Answer) bool { return a.Trouble != "" })
	hold := make(chan struct{})
	b.service.Set(t, func(buildapi.Order) buildtest.Reply { return buildtest.Reply{Hold: hold, Report: buildtest.Built} })
	b.until(t, "the trouble is over", func(a buildclient.Answer) bool { return a.Trouble == "" })
	close(hold)
	b.until(t, "it is built", isBuilt)
}

// A busy service receives the order again after its Retry-After.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	b := start(t)
	arrived := make(chan time.Time, 2)
	b.service.Set(t, func(buildapi.Order) buildtest.Reply {
		arrived <- time.Now()
		if len(arrived) == 1 {
			return buildtest.Reply{Status: http.StatusTooManyRequests, RetryAfter: "1"}
		}
		return buildtest.Reply{Report: buildtest.Built}
	})
	b.until(t, "it is built", isBuilt)
	first := <-arrived
	if pause := (<-arrived).Sub(first); pause < time.Second {
		t.Errorf("the order is sent again after %s", pause)
	}
}

// Orders fail while no service listens, or if another service has taken the address.
func TestWrongService(t *testing.T) {
	b := start(t)
	b.until(t, "it is built", isBuilt)
	b.Keep(fn, nil)
	other, err := buildapi.NewKeys(make([]byte, buildapi.SeedSize))
	if err != nil {
		t.Fatal(err)
	}
	rotated := make([]byte, buildapi.SeedSize)
	b.secrets.seed.Store(&rotated) // rotated without a notification
	b.service.Disconnect()
	if a := b.until(t, "it is built with the new keys", isBuilt); a.Binary.PublicKey != other.Public() {
		t.Errorf("the public key is %s", a.Binary.PublicKey)
	}

	b.Keep(fn, nil)
	b.service.Close()
	impostor := &http.Server{Addr: strings.TrimPrefix(b.service.URL, "https://"), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		buildapitest.Tell(w, buildapi.Event{Key: "1", Report: []byte(buildtest.Built)})
	})}
	a := b.until(t, "connection refused", func(a buildclient.Answer) bool { return strings.Contains(a.Trouble, "connection refused") })
	if strings.Contains(a.Trouble, "->") {
		t.Errorf("Trouble is %q", a.Trouble)
	}
	seed := bytes.Repeat([]byte{1}, buildapi.SeedSize)
	strange, err := buildapi.NewKeys(seed)
	if err != nil {
		t.Fatal(err)
	}
	if impostor.TLSConfig, err = strange.ServerTLS(); err != nil {
		t.Fatal(err)
	}
	impostor.TLSConfig.NextProtos = []string{"http/1.1"}
	impostor.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
	go func() { _ = impostor.ListenAndServeTLS("", "") }()
	t.Cleanup(func() { _ = impostor.Close() })
	b.until(t, "an impostor is known", func(a buildclient.Answer) bool { return strings.Contains(a.Trouble, "the server has a different seed") })
	b.secrets.seed.Store(&seed) // the service has this seed
	if a := b.until(t, "it is built with the keys of the other service", isBuilt); a.Binary.PublicKey != strange.Public() {
		t.Errorf("the public key is %s", a.Binary.PublicKey)
	}
}

// Without access to the Secret no order is sent, and the answer contains the reason.
func TestSecretForbidden(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.secrets.seed.Store(nil)
	b.secrets.refused.Store(true)
	b.Keep(fn, nil)
	orders := buildclient.New(&buildclient.Service{URL: b.service.URL, Namespace: "goless-system", Live: b.secrets, Client: b.secrets})
	b.Orders = orders
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := b.Changed().Start(ctx, b.news); err != nil {
		t.Fatal(err)
	}
	a := b.until(t, "the right is missing", func(a buildclient.Answer) bool { return a.Trouble != "" })
	if !strings.Contains(a.Trouble, `Secret "goless-build" of goless-system could not be read since 20`) || !strings.Contains(a.Trouble, "forbidden") {
		t.Errorf("Trouble is %q", a.Trouble)
	}
	b.secrets.refused.Store(false)
	b.until(t, "it is built", isBuilt)
}

// The first replica creates the seed, and the next one uses it.
func TestSeedCreatedOnce(t *testing.T) {
	b := start(t)
	eventually(t, "seed created", func() bool { return b.secrets.seed.Load() != nil })
	seed := *b.secrets.seed.Load()
	if len(seed) != buildapi.SeedSize || bytes.Equal(seed, make([]byte, buildapi.SeedSize)) {
		t.Errorf("the seed is %x", seed)
	}
	b.until(t, "it is built", isBuilt)
	if reads := b.secrets.reads.Load(); reads != 1 {
		t.Errorf("%d reads of the Secret, want 1", reads)
	}
}

// Orders are canceled when the operator stops.
func TestStop(t *testing.T) {
	s := &secrets{}
	service := buildtest.New(s.keys)
	t.Cleanup(service.Close)
	service.Set(t, func(buildapi.Order) buildtest.Reply { return buildtest.Reply{Hold: make(chan struct{})} })
	orders := buildclient.New(&buildclient.Service{URL: service.URL, Namespace: "goless-system", Live: s, Client: s})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- orders.Start(ctx) }()
	orders.Add(fn, "1", order, "", load)
	eventually(t, "order received", func() bool { return len(service.Orders("team")) == 1 })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	eventually(t, "order canceled in the service", func() bool { return service.Canceled() == 1 })
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out after 1m0s: %s", what)
		}
	}
}
