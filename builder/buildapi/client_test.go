package buildapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"goless.io/builder/buildapi"
)

var order = buildapi.Order{Namespace: "team-a", Source: "package p", Timeout: time.Minute}

// serve starts a server that has the keys and responds to orders with answer. Package buildservice
// tests the real server with the same client.
func serve(t *testing.T, keys *buildapi.Keys, answer http.HandlerFunc) (url string) {
	t.Helper()
	server := httptest.NewUnstartedServer(answer)
	config, err := keys.ServerTLS()
	if err != nil {
		t.Fatal(err)
	}
	server.TLS = config
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // discards errors of clients that reject the server
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

func TestClient(t *testing.T) {
	keys := newKeys(t, 1)
	connections := map[string]bool{}
	url := serve(t, keys, func(w http.ResponseWriter, r *http.Request) {
		connections[r.RemoteAddr] = true
		var got buildapi.Order
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil || r.URL.Path != buildapi.BuildsPath || r.Header.Get("Authorization") != "Bearer "+keys.Token() {
			t.Errorf("the request: %s, %v, %v", r.URL, r.Header, err)
		}
		if diff := cmp.Diff(order, got); diff != "" {
			t.Errorf("the order: -want +got\n%s", diff)
		}
		for _, line := range []string{"{\"key\":\"K\"}\n", "\n", "\n{\"key\":\"K\",\"waiting\":true}\n", "{\"key\":\"K\",\"report\":{\"reason\":\"Built\"},\"more\":1}\n"} {
			_, _ = io.WriteString(w, line)
			_ = http.NewResponseController(w).Flush()
		}
	})
	client := buildapi.NewClient(url+"/", keys)
	for range 3 {
		var told []buildapi.Event
		last, err := client.Build(t.Context(), order, func(e buildapi.Event) { told = append(told, e) })
		if err != nil {
			t.Fatal(err)
		}
		want := []buildapi.Event{{Key: "K"}, {Key: "K", Waiting: true}, {Key: "K", Report: json.RawMessage(`{"reason":"Built"}`)}}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("events: -want +got\n%s", diff)
		}
		if diff := cmp.Diff(want[2], last); diff != "" {
			t.Errorf("the last one: -want +got\n%s", diff)
		}
	}
	if len(connections) != 1 {
		t.Errorf("%d connections for three orders, want one that is used again", len(connections))
	}
}

func TestClientErrors(t *testing.T) {
	keys := newKeys(t, 1)
	cases := map[string]struct {
		answer http.HandlerFunc
		check  func(error) bool
	}{
		"Busy": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			http.Error(w, "too many\nbuilds", http.StatusTooManyRequests)
		}, func(err error) bool {
			status, ok := errors.AsType[*buildapi.StatusError](err)
			return ok && errors.Is(err, buildapi.ErrBusy) && status.RetryAfter == 7*time.Second && status.Message == "too many builds"
		}},
		"Dropped": {
			func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, `{"key":"K"}`+"\n"+`{"key":"K","dropped":true}`+"\n")
			},
			func(err error) bool {
				status, ok := errors.AsType[*buildapi.StatusError](err)
				return ok && errors.Is(err, buildapi.ErrBusy) && status.RetryAfter == time.Second
			},
		},
		"Ending": {
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
			func(err error) bool { return errors.Is(err, buildapi.ErrBusy) },
		},
		"Refused": {
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
			func(err error) bool {
				status, ok := errors.AsType[*buildapi.StatusError](err)
				return ok && status.Code == 401 && !errors.Is(err, buildapi.ErrBusy)
			},
		},
		"NoReport": {
			func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"key":"K"}`) },
			func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) },
		},
		"NotJSON": {
			func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
			func(err error) bool { _, ok := errors.AsType[*json.SyntaxError](err); return ok },
		},
		"Dies": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"key":"K"}`)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := buildapi.NewClient(serve(t, keys, c.answer), keys).Build(t.Context(), order, nil)
			if err == nil || !c.check(err) {
				t.Errorf("Build: %v", err)
			}
		})
	}
}

func TestClientKnowsTheService(t *testing.T) {
	url := serve(t, newKeys(t, 2), func(http.ResponseWriter, *http.Request) { t.Error("the order was sent") })
	_, err := buildapi.NewClient(url, newKeys(t, 1)).Build(t.Context(), order, nil)
	if err == nil {
		t.Error("Build talks to a server with another seed")
	}
	if _, ok := errors.AsType[*buildapi.StatusError](err); ok {
		t.Errorf("Build: %v, want an error before any answer", err)
	}
}

func TestClientWithoutService(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := buildapi.NewClient("https://"+address, newKeys(t, 1)).Build(t.Context(), order, nil); err == nil {
		t.Error("Build needs no service")
	}
}

func TestClientEndsWithItsContext(t *testing.T) {
	gone := make(chan struct{})
	url := serve(t, newKeys(t, 1), func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"key":"K"}`)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(gone)
	})
	ctx, cancel := context.WithCancel(t.Context())
	_, err := buildapi.NewClient(url, newKeys(t, 1)).Build(ctx, order, func(buildapi.Event) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Build: %v, want that it was cancelled", err)
	}
	<-gone
}

// TestClientTests orders tests from a service that supports them, and from one that ignores
// Order.Tests and builds the function.
func TestClientTests(t *testing.T) {
	keys := newKeys(t, 1)
	for name, c := range map[string]struct {
		events []string
		told   int
		want   error
	}{
		"Supported": {[]string{`{"key":"K","tests":true}`, `{"key":"K","tests":true,"report":{}}`}, 2, nil},
		"Ignored":   {[]string{`{"key":"K"}`, `{"key":"K","report":{}}`}, 0, buildapi.ErrNoTests},
		"AtTheEnd":  {[]string{`{"key":"K","tests":true}`, `{"key":"K","report":{}}`}, 1, buildapi.ErrNoTests},
	} {
		t.Run(name, func(t *testing.T) {
			url := serve(t, keys, func(w http.ResponseWriter, r *http.Request) {
				var got buildapi.Order
				if err := json.NewDecoder(r.Body).Decode(&got); err != nil || !got.Tests {
					t.Errorf("the order: %+v, %v", got, err)
				}
				for _, line := range c.events {
					_, _ = io.WriteString(w, line+"\n")
				}
			})
			o := order
			o.Tests = true
			told := 0
			last, err := buildapi.NewClient(url, keys).Build(t.Context(), o, func(buildapi.Event) { told++ })
			if !errors.Is(err, c.want) || told != c.told || (err == nil) != last.Tests {
				t.Errorf("Build: %+v, %v after %d events, want %v after %d", last, err, told, c.want, c.told)
			}
		})
	}
}
