package streams

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A stream that is deleted and created again under load has new events: their IDs differ from
// those of the previous stream, and the dead letter keeps all of them.
func TestNATSRecreated(t *testing.T) {
	const streams, poison = 5, 3
	server := newNATS(t, "")
	js := server.connect(t)
	dead, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "DEAD", Subjects: []string{"dead.>"}})
	if err != nil {
		t.Fatal(err)
	}
	var refused sync.Map // the ids
	f := newFunction(t, func(e cloudevents.Event, _ int) int {
		if strings.HasPrefix(string(e.Data()), "poison") {
			refused.Store(e.ID(), true)
			return http.StatusUnprocessableEntity
		}
		return http.StatusOK
	})
	c := consume(t, f, server.stock("--dead-letter=dead.orders")...)
	for n := range streams {
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}}); err != nil {
			t.Fatal(err)
		}
		for range poison {
			publish(t, js, "orders.7", "poison"+nats.NewInbox())
		}
		publish(t, js, "orders.8", "good"+nats.NewInbox())
		eventually(t, "the messages of this stream are done with", func() bool {
			return good(f) == n+1 && lettersOf(t, dead) == uint64((n+1)*poison) && c.healthy(t)
		})
		for range 20 { // some of them are under way when the stream is deleted
			if _, err := js.PublishAsync("orders.7", []byte("load")); err != nil {
				t.Fatal(err)
			}
		}
		if err := js.DeleteStream(t.Context(), "ORDERS"); err != nil {
			t.Fatal(err)
		}
	}
	ids := 0
	refused.Range(func(any, any) bool { ids++; return true })
	if ids != streams*poison {
		t.Errorf("%d ids of %d events", ids, streams*poison)
	}
}

// good returns how many of the events that are not part of the load were accepted.
func good(f *function) int {
	ids := map[string]bool{}
	for _, e := range f.events() {
		if strings.HasPrefix(string(e.Data()), "good") {
			ids[e.ID()] = true
		}
	}
	return len(ids)
}

func lettersOf(t *testing.T, stream jetstream.Stream) uint64 {
	t.Helper()
	info, err := stream.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info.State.Msgs
}

// If a dead letter is too large for the server or for the stream, it is stored without its
// data, and without its headers if they are too large.
func TestNATSLargeDeadLetter(t *testing.T) {
	const payload = 16 << 10
	for name, test := range map[string]struct {
		header, data, most int
		core               bool
		wantData, wantOwn  bool
		truncated          string
	}{
		"Fits":    {header: 10, data: 100, wantData: true, wantOwn: true},
		"Server":  {header: 10, data: payload - 100, wantOwn: true, truncated: "16284"},
		"Stream":  {header: 10, data: 2000, most: 1500, wantOwn: true, truncated: "2000"},
		"Headers": {header: payload - 300, data: 10, truncated: "10"},
		"Core":    {header: 10, data: payload - 100, core: true, wantOwn: true, truncated: "16284"},
	} {
		t.Run(name, func(t *testing.T) {
			server := newNATS(t, "max_payload: 16384")
			js := server.connect(t)
			orders(t, js)
			config := jetstream.StreamConfig{Name: "DEAD", Subjects: []string{"dead.>"}, MaxMsgSize: int32(test.most)}
			dead, err := js.CreateStream(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			f := newFunction(t, func(cloudevents.Event, int) int { return http.StatusUnprocessableEntity })
			args := server.stock("--dead-letter=dead.orders")
			if test.core {
				args = append(args, "--stream=", "--subject=direct")
			}
			c := consume(t, f, args...)
			eventually(t, "it is connected", func() bool { return c.healthy(t) })
			msg := nats.NewMsg("orders.7")
			if test.core {
				msg.Subject = "direct"
			}
			msg.Data = []byte(strings.Repeat("d", test.data))
			msg.Header.Set("X-Own", strings.Repeat("h", test.header))
			if err := js.Conn().PublishMsg(msg); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the dead letter has it", func() bool { return lettersOf(t, dead) == 1 })
			letter, err := dead.GetMsg(t.Context(), 1)
			if err != nil {
				t.Fatal(err)
			}
			if has := len(letter.Data) == test.data; has != test.wantData || !has && len(letter.Data) > 0 {
				t.Errorf("it has %d bytes of data", len(letter.Data))
			}
			if own := letter.Header.Get("X-Own"); (own != "") != test.wantOwn || own != "" && len(own) != test.header {
				t.Errorf("its own header has %d bytes", len(own))
			}
			if got := letter.Header.Get("Goless-Truncated"); got != test.truncated {
				t.Errorf("Goless-Truncated is %q, want %q", got, test.truncated)
			}
			if letter.Header.Get("Goless-Reason") == "" || letter.Header.Get("Goless-Subject") != msg.Subject {
				t.Errorf("its headers are %v", letter.Header)
			}
		})
	}
}
