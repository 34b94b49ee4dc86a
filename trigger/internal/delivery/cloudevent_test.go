package delivery_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	gocmp "github.com/google/go-cmp/cmp"

	"goless.io/trigger/internal/delivery"
)

// A message that is already a CloudEvent keeps its attributes, and those of the trigger become
// extensions, in each mode and in a batch.
func TestCloudEventStays(t *testing.T) {
	for name, test := range map[string]struct {
		header http.Header
		data   string
	}{
		"Binary": {http.Header{
			"Ce-Specversion": {"1.0"}, "ce-id": {"their-id"}, "Ce-Source": {"/their"}, "ce-type": {"their.type"}, "Ce-Subject": {"their/subject"},
			"ce-own": {"x%20y"}, "ce-partitionkey": {"their-key"}, "Content-Type": {"application/json"}, "ce-n_t": {"no name"},
		}, `{"n":"<7>"}`},
		"Kafka": {http.Header{
			"Ce_specversion": {"1.0"}, "ce_id": {"their-id"}, "ce_source": {"/their"}, "ce_type": {"their.type"}, "ce_subject": {"their/subject"},
			"ce_own": {"x y"}, "ce_partitionkey": {"their-key"}, "content-type": {"application/json"},
		}, `{"n":"<7>"}`},
		"Structured": {
			http.Header{"Content-Type": {"application/cloudevents+json; charset=utf-8"}},
			`{"specversion":"1.0","id":"their-id","source":"/their","type":"their.type","subject":"their/subject","own":"x y","partitionkey":"their-key","datacontenttype":"application/json","data":{"n":"<7>"}}`,
		},
	} {
		e := delivery.Event{
			ID: "orders-0-17", Source: "/ours", Type: "io.goless.test", Subject: "ours",
			Extensions: map[string]string{"kafkatopic": "orders", "partitionkey": "ours"}, Header: test.header, Data: []byte(test.data),
		}
		check := func(t *testing.T, got *cloudevents.Event) {
			if got.Extensions()["own"] == "x%20y" { // the SDK does not decode headers
				got.SetExtension("own", "x y")
			}
			if err := got.Validate(); err != nil {
				t.Error(err)
			}
			want := []any{"their-id", "/their", "their.type", "their/subject", `{"n":"<7>"}`, map[string]any{
				"own": "x y", "partitionkey": "their-key", "kafkatopic": "orders", "golessid": "orders-0-17", "golesssource": "/ours", "golesssubject": "ours",
			}}
			if diff := gocmp.Diff(want, []any{got.ID(), got.Source(), got.Type(), got.Subject(), string(got.Data()), got.Extensions()}); diff != "" {
				t.Errorf("id, source, type, subject, data and extensions (-want +got):\n%s", diff)
			}
		}
		t.Run(name, func(t *testing.T) { check(t, read(t, e)) })
		t.Run(name+"Batch", func(t *testing.T) { check(t, readSecond(t, e)) })
	}
}

// Data that is a CloudEvent in JSON, or several, does not get a second set of attributes.
func TestStructuredData(t *testing.T) {
	for name, test := range map[string]struct{ contentType, data string }{
		"NoJSON":    {"application/cloudevents+json", "{"},
		"NoVersion": {"application/cloudevents+json", `{"id":"1"}`},
		"Avro":      {"application/cloudevents+avro", "\x00"},
		"Batch":     {"application/cloudevents-batch+json", "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			e := delivery.Event{ID: "1", Source: "/ours", Type: "t", Header: http.Header{"Content-Type": {test.contentType}, "Ce-Id": {"2"}}, Data: []byte(test.data)}
			r, err := e.Request(t.Context(), http.MethodPost, "http://function.example/")
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(http.Header{"Content-Type": {test.contentType}}, r.Header); diff != "" {
				t.Errorf("the headers (-want +got):\n%s", diff)
			}
			if got := readSecond(t, e); got.ID() != "1" || string(got.Data()) != test.data {
				t.Errorf("in a batch it is %s", got)
			}
		})
	}
}

// Headers that a function or the activator would reject with 431 are omitted, and the event reports
// that.
func TestLongHeaders(t *testing.T) {
	many := http.Header{"traceparent": {"00-1-2-03"}, "Content-Type": {"text/plain"}}
	for i := range 1000 {
		many[fmt.Sprintf("A-%04d", i)] = []string{"some value"}
	}
	for name, test := range map[string]struct {
		key    string
		header http.Header
		want   string // what the event reports as omitted
	}{
		"Key":        {key: strings.Repeat("k", 100<<10), want: "1 attributes, 0 headers"},
		"EncodedKey": {key: strings.Repeat("é", 3<<10), want: "1 attributes, 0 headers"},
		"Headers":    {header: many, want: "0 attributes, 395 headers"},
		"Short":      {key: strings.Repeat("k", 8<<10)},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := delivery.Event{
				ID: "1", Source: "/ours", Type: "t", Extensions: map[string]string{"partitionkey": test.key}, Header: test.header, Data: []byte("7"),
			}.Request(t.Context(), http.MethodPost, "http://function.example/")
			if err != nil {
				t.Fatal(err)
			}
			arrived := serve(t, r)
			if arrived == nil {
				t.Fatal("the server refuses the request")
			}
			if got := arrived.Header.Get("Ce-Golessomitted"); got != test.want || arrived.Header.Get("Ce-Id") != "1" {
				t.Errorf("event %q says that it lacks %q, want %q", arrived.Header.Get("Ce-Id"), got, test.want)
			}
			if test.header != nil { // the less important ones are last
				checkHeaders(t, arrived.Header, "Traceparent", "Content-Type", "A-0000", "A-0100")
			}
		})
	}
}

func checkHeaders(t *testing.T, header http.Header, names ...string) {
	t.Helper()
	for _, name := range names {
		if header.Get(name) == "" {
			t.Errorf("the header %s is left out", name)
		}
	}
}

// serve sends a request to a server with the limit of the activator and returns the received
// request, or nil if it is rejected.
func serve(t *testing.T, r *http.Request) (arrived *http.Request) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { arrived = r }))
	server.Config.MaxHeaderBytes = 16 << 10
	server.Start()
	defer server.Close()
	sent := r.Clone(t.Context())
	sent.URL.Host, sent.Host = server.Listener.Addr().String(), ""
	sent.Body = http.NoBody
	sent.ContentLength = 0
	answer, err := http.DefaultClient.Do(sent)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close() // the body is not read
	return arrived
}
