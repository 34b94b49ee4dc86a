package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// A cutter is a proxy of an API server that can end watches, as the server itself may at any
// time.
type cutter struct {
	proxy *httputil.ReverseProxy

	mu      sync.Mutex
	watches map[*http.Request]context.CancelFunc
}

// ServeHTTP implements [http.Handler].
func (c *cutter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("watch") != "" {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		r = r.WithContext(ctx)
		c.mu.Lock()
		c.watches[r] = cancel
		c.mu.Unlock()
		defer func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.watches, r)
		}()
	}
	c.proxy.ServeHTTP(w, r)
}

// cut ends all watches, and returns their number.
func (c *cutter) cut() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cancel := range c.watches {
		cancel()
	}
	return len(c.watches)
}

// behindCutter starts an API server, and returns a client whose watches can be ended.
func behindCutter(t *testing.T) (client.WithWatch, *cutter) {
	t.Helper()
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		assets = filepath.Join("..", "..", ".cache", "assets")
	}
	environment := &envtest.Environment{BinaryAssetsDirectory: assets, ControlPlaneStartTimeout: 2 * time.Minute}
	config, err := environment.Start()
	if err != nil {
		t.Fatalf("starting an API server, make assets builds it: %v", err)
	}
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Error(err)
		}
	})
	c := &cutter{proxy: new(httputil.ReverseProxy), watches: map[*http.Request]context.CancelFunc{}}
	if c.proxy.Transport, err = rest.TransportFor(config); err != nil {
		t.Fatal(err)
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	c.proxy.Rewrite = func(r *httputil.ProxyRequest) { r.SetURL(server) }
	c.proxy.FlushInterval = -1
	c.proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) {}
	front := httptest.NewServer(c)
	t.Cleanup(front.Close)
	watching, err := client.NewWithWatch(&rest.Config{Host: front.URL}, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return watching, c
}

func configMap(name, value string) *corev1.ConfigMap {
	m := &corev1.ConfigMap{Data: map[string]string{"value": value}}
	m.Name, m.Namespace = name, "default"
	return m
}

func isDone(object client.Object) bool { return object.(*corev1.ConfigMap).Data["value"] == "done" }

// Changes after the end of a watch are seen, and the timeout does not get shorter.
func TestWatchesSurviveTheirEnd(t *testing.T) {
	c, cutter := behindCutter(t)
	t.Run("One", func(t *testing.T) {
		one := configMap("one", "begun")
		if err := c.Create(t.Context(), one); err != nil {
			t.Fatal(err)
		}
		ctx, giveUp := context.WithCancel(t.Context())
		defer giveUp()
		changed := make(chan error, 1)
		var once sync.Once
		seen, err := await(t.Context(), c, one, &corev1.ConfigMapList{}, func(now *corev1.ConfigMap) bool {
			once.Do(func() { go func() { changed <- cutAndChange(ctx, c, cutter, "one") }() })
			return isDone(now)
		})
		if err != nil {
			giveUp()
		}
		if err := errors.Join(err, <-changed); err != nil || !isDone(seen) {
			t.Errorf("the change was not seen: %v, %v", seen.Data, err)
		}
	})
	t.Run("Many", func(t *testing.T) { manySurvive(t, c, cutter) })
	t.Run("None", func(t *testing.T) {
		gone := errors.New("the wait has ended")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(gone)
		if _, err := await(ctx, c, configMap("none", ""), &corev1.ConfigMapList{}, func(now *corev1.ConfigMap) bool { return isDone(now) }); !errors.Is(err, gone) {
			t.Errorf("got %v, want the cause of the context", err)
		}
	})
}

// manySurvive waits for several objects whose watches end.
func manySurvive(t *testing.T, c client.WithWatch, cutter *cutter) {
	t.Helper()
	missing := map[string]bool{}
	for n := range 3 {
		m := configMap(fmt.Sprintf("many-%d", n), "begun")
		if err := c.Create(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		missing[m.Name] = true
	}
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	changed := make(chan error, 1)
	var once sync.Once
	err := awaitAll(t.Context(), c, configMap("", ""), &corev1.ConfigMapList{}, func(object client.Object) bool {
		once.Do(func() { go func() { changed <- cutAndChange(ctx, c, cutter, "many-0", "many-1", "many-2") }() })
		return isDone(object)
	}, missing)
	if err != nil {
		giveUp()
	}
	if err := errors.Join(err, <-changed); err != nil {
		t.Error(err)
	}
}

// cutAndChange changes the named objects, each after the end of all watches.
func cutAndChange(ctx context.Context, c client.Client, cutter *cutter, names ...string) error {
	for _, name := range names {
		for cutter.cut() == 0 { // until there is one to end
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Millisecond):
			}
		}
		if err := c.Update(ctx, configMap(name, "done")); err != nil {
			return err
		}
	}
	return nil
}
