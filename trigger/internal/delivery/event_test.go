package delivery_test

import (
	"cmp"
	"errors"
	"net/http"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	gocmp "github.com/google/go-cmp/cmp"

	"goless.io/trigger/internal/delivery"
)

// The CloudEvents SDK reads the attributes and data of the event.
func TestSDK(t *testing.T) {
	e := delivery.Event{
		ID: "orders-0-17", Source: "/apis/goless.io/v1alpha1/namespaces/shop/x", Type: "io.goless.test",
		Time: time.Date(2026, time.November, 23, 4, 5, 6, 789, time.FixedZone("CET", 3600)), Subject: "orders/7", Header: http.Header{"Content-Type": {"application/json"}},
		Data: []byte(`{"n":7}`), Extensions: map[string]string{"partitionkey": "7"},
	}
	got := read(t, e)
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
	if !sameAttributes(got, e) || got.DataContentType() != "application/json" || string(got.Data()) != string(e.Data) {
		t.Errorf("got %s", got)
	}
}

// sameAttributes reports whether the SDK has read the attributes of an event, except the type of
// its data.
func sameAttributes(got *cloudevents.Event, e delivery.Event) bool {
	return got.SpecVersion() == "1.0" && got.ID() == e.ID && got.Source() == e.Source && got.Type() == e.Type &&
		got.Subject() == e.Subject && got.Time().Equal(e.Time) && got.Extensions()["partitionkey"] == e.Extensions["partitionkey"]
}

// The CloudEvents SDK reads the attributes and data of the events of a batch, for all kinds of
// data.
func TestBatchSDK(t *testing.T) {
	at := time.Date(2026, time.November, 23, 4, 5, 6, 789, time.UTC)
	for name, test := range map[string]struct {
		header, contentType string // the default of header is Content-Type
		data, want          string // the default of want is data
		base64              bool
	}{
		"JSON":          {contentType: "application/json; charset=utf-8", data: `{"n":7}`},
		"JSONSpaced":    {contentType: "application/json", data: "{\n  \"n\": 7\n}", want: `{"n":7}`},
		"UnknownJSON":   {data: `["<&>",12345678901234567890]`},
		"UnknownText":   {data: "seven", base64: true},
		"UnknownBinary": {data: "\x00\xff", base64: true},
		"NoJSON":        {contentType: "application/json", data: "{", base64: true},
		"NoUTF8":        {contentType: "application/json", data: "[\"\xff\"]", base64: true},
		"Text":          {header: "content-type", contentType: "text/plain", data: "7", base64: true},
		"OtherJSON":     {contentType: "application/vnd.shop+json", data: `{"n":7}`, base64: true},
		"NoType":        {contentType: "//", data: "7"},
		"Empty":         {contentType: "application/json"},
	} {
		t.Run(name, func(t *testing.T) {
			e := delivery.Event{
				ID: "orders-0-17 \"é\"", Source: "/apis/x", Type: "io.goless.test", Time: at, Subject: "orders/7",
				Header: http.Header{cmp.Or(test.header, "Content-Type"): {test.contentType}}, Data: []byte(test.data), Extensions: map[string]string{"partitionkey": "7"},
			}
			got := readSecond(t, e)
			want := cmp.Or(test.want, test.data)
			if !sameAttributes(got, e) || string(got.Data()) != want || got.DataBase64 != test.base64 {
				t.Errorf("got %s", got)
			}
		})
	}
}

// readSecond returns the event that the SDK reads at the second position of a batch.
func readSecond(t *testing.T, e delivery.Event) *cloudevents.Event {
	t.Helper()
	r, err := delivery.BatchRequest(t.Context(), http.MethodPost, "http://function.example/", []delivery.Event{{ID: "1", Source: "/test", Type: "t"}, e})
	if err != nil {
		t.Fatal(err)
	}
	if !cehttp.IsHTTPBatch(r.Header) {
		t.Errorf("the headers are %v", r.Header)
	}
	all, err := cehttp.NewEventsFromHTTPRequest(r)
	if err != nil || len(all) != 2 {
		t.Fatalf("got %v, %v, want two events", all, err)
	}
	if err := errors.Join(all[0].Validate(), all[1].Validate()); err != nil {
		t.Error(err)
	}
	return &all[1]
}

// Headers of a message are sent, except those that would change the request.
func TestMessageHeaders(t *testing.T) {
	r, err := delivery.Event{ID: "1", Source: "/test", Type: "t", Header: http.Header{
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
	if diff := gocmp.Diff(want, r.Header); diff != "" {
		t.Errorf("the headers (-want +got):\n%s", diff)
	}
}

// Characters that are not valid in a header are encoded, and unknown attributes are omitted.
func TestHeaders(t *testing.T) {
	r, err := delivery.Event{ID: "a b\"%\r\nX: 1", Source: "/é", Type: "t"}.Request(t.Context(), http.MethodPost, "http://function.example/")
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

func read(t *testing.T, e delivery.Event) *cloudevents.Event {
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
