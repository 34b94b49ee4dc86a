package kafkastream

import (
	"net/http"
	"testing"
	"time"

	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"goless.io/trigger/internal/stream"
)

// The CloudEvents SDK reads all properties of a record.
func TestEvent(t *testing.T) {
	at := time.Date(2026, time.November, 23, 4, 5, 6, 789e6, time.UTC)
	for name, test := range map[string]struct {
		key  []byte
		want string // partitionkey, which the SDK does not decode, and its encoding
	}{
		"Text":   {[]byte("customer 7/é"), "customer%207/%C3%A9 text"},
		"Binary": {[]byte{0xff, 0}, "/wA= base64"},
		"None":   {nil, " "},
	} {
		t.Run(name, func(t *testing.T) {
			record := &kgo.Record{
				Topic: "orders", Partition: 3, Offset: 17, Key: test.key, Value: []byte(`{"n":7}`), Timestamp: at,
				Headers: []kgo.RecordHeader{{Key: "content-type", Value: []byte("application/json")}, {Key: "x-own", Value: []byte("a")}, {Key: "x-own", Value: []byte("b")}},
			}
			e := (&message{member: &member{deliverer: &stream.Deliverer{Source: "/test"}}, record: record}).Event()
			r, err := e.Request(t.Context(), http.MethodPost, "http://function.example/")
			if err != nil {
				t.Fatal(err)
			}
			got, err := cehttp.NewEventFromHTTPRequest(r)
			if err != nil || got.Validate() != nil {
				t.Fatalf("it is no CloudEvent: %v, %v", err, got.Validate())
			}
			key := r.Header.Get("Ce-Partitionkey") + " " + r.Header.Get("Ce-Kafkakeyencoding")
			want := []any{"orders-3-17", "/test", "io.goless.kafka.record", "application/json", `{"n":7}`, test.want, "orders", "3", "17"}
			have := []any{
				got.ID(), got.Source(), got.Type(), got.DataContentType(), string(got.Data()), key,
				got.Extensions()["kafkatopic"], got.Extensions()["kafkapartition"], got.Extensions()["kafkaoffset"],
			}
			if diff := cmp.Diff(want, have); diff != "" {
				t.Errorf("the event (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"a", "b"}, r.Header.Values("X-Own")); diff != "" || !got.Time().Equal(at) {
				t.Errorf("the time is %s, the header (-want +got):\n%s", got.Time(), diff)
			}
		})
	}
}

// A record without a value deletes its key in a compacted topic. A record with an empty value does
// not.
func TestTombstone(t *testing.T) {
	for want, value := range map[string][]byte{"true": nil, "": {}} {
		e := (&message{member: &member{deliverer: &stream.Deliverer{Source: "/test"}}, record: &kgo.Record{Topic: "orders", Value: value}}).Event()
		if got := e.Extensions["kafkatombstone"]; got != want {
			t.Errorf("of %#v the extension is %q, want %q", value, got, want)
		}
	}
}
