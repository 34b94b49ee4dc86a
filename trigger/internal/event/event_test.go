package event_test

import (
	"net/http"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/google/go-cmp/cmp"

	"goless.io/trigger/internal/event"
)

// What the CloudEvents SDK reads is what was meant.
func TestSDK(t *testing.T) {
	e := event.Event{
		ID: "orders-0-17", Source: "/apis/goless.io/v1alpha1/namespaces/shop/x", Type: "io.goless.test",
		Time: time.Date(2026, time.November, 23, 4, 5, 6, 789, time.FixedZone("CET", 3600)), Subject: "orders/7", ContentType: "application/json",
		Data: []byte(`{"n":7}`), Extensions: map[string]string{"partitionkey": "7"},
	}
	got := read(t, e)
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
	if got.ID() != e.ID || got.Source() != e.Source || got.Type() != e.Type || got.Subject() != e.Subject || !got.Time().Equal(e.Time) ||
		got.DataContentType() != e.ContentType || string(got.Data()) != string(e.Data) || got.Extensions()["partitionkey"] != "7" || got.SpecVersion() != "1.0" {
		t.Errorf("got %s", got)
	}
}

// Headers of a message are sent, but none that would change what the request is.
func TestMessageHeaders(t *testing.T) {
	r, err := event.Event{ID: "1", Source: "/test", Type: "t", Header: http.Header{
		"traceparent": {"00-1-2-03"}, "X-Own": {"a", "b"}, "Content-Type": {"text/plain"},
		"Host": {"evil.example"}, "transfer-encoding": {"chunked"}, "ce-id": {"2"}, "Ce-Other": {"x"}, "X Y": {"space"}, "X-Line": {"a\r\nb"},
	}}.Request(t.Context(), http.MethodPost, "http://function.example/")
	if err != nil {
		t.Fatal(err)
	}
	want := http.Header{
		"Traceparent": {"00-1-2-03"}, "X-Own": {"a", "b"}, "Content-Type": {"text/plain"},
		"Ce-Specversion": {"1.0"}, "Ce-Id": {"1"}, "Ce-Source": {"/test"}, "Ce-Type": {"t"},
	}
	if diff := cmp.Diff(want, r.Header); diff != "" {
		t.Errorf("the headers (-want +got):\n%s", diff)
	}
}

// What may not stand in a header is encoded, and what is not known is left out.
func TestHeaders(t *testing.T) {
	r, err := event.Event{ID: "a b\"%\r\nX: 1", Source: "/é", Type: "t"}.Request(t.Context(), http.MethodPost, "http://function.example/")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"Ce-Id": "a%20b%22%25%0D%0AX:%201", "Ce-Source": "/%C3%A9", "Ce-Type": "t", "Ce-Time": "", "Ce-Subject": "", "Content-Type": "",
	} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func read(t *testing.T, e event.Event) *cloudevents.Event {
	t.Helper()
	r, err := e.Request(t.Context(), http.MethodPost, "http://function.example/")
	if err != nil {
		t.Fatal(err)
	}
	got, err := cehttp.NewEventFromHTTPRequest(r)
	if err != nil {
		t.Fatal(err)
	}
	return got
}
