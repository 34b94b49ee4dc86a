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
	const streams, poison = 6, 3
	server := newNATS(t, "")
	js := server.connect(t)
	dead := createStream(t, js, "DEAD", "dead.>")
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
		createStream(t, js, "ORDERS", "orders.>")
		for range poison {
			publish(t, js, "orders.7", "poison"+nats.NewInbox())
		}
		publish(t, js, "orders.8", "good"+nats.NewInbox())
		eventually(t, "the messages of this stream are processed", func() bool {
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
		t.Errorf("%d IDs for %d events", ids, streams*poison)
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

// A largeLetter is a message with a header and data of the given sizes, and what its dead letter contains.
type largeLetter struct {
	header, data, most int
	subject            string // direct is outside of the stream
	wantData, wantOwn  bool
	truncated          string
}

func (l largeLetter) check(t *testing.T, letter *jetstream.RawStreamMsg, subject string) {
	t.Helper()
	if has := len(letter.Data) == l.data; has != l.wantData || !has && len(letter.Data) > 0 {
		t.Errorf("the dead letter has %d bytes of data", len(letter.Data))
	}
	if own := letter.Header.Get("X-Own"); (own != "") != l.wantOwn || own != "" && len(own) != l.header {
		t.Errorf("the message's own header has %d bytes", len(own))
	}
	if got := letter.Header.Get("Goless-Truncated"); got != l.truncated {
		t.Errorf("Goless-Truncated is %q, want %q", got, l.truncated)
	}
	if letter.Header.Get("Goless-Reason") == "" || letter.Header.Get("Goless-Subject") != subject {
		t.Errorf("the headers are %v", letter.Header)
	}
}

// If a dead letter is too large for the server or for the stream, it is stored without its
// data, and without its headers if they are too large.
func TestNATSLargeDeadLetter(t *testing.T) {
	const payload = 16 << 10
	for name, test := range map[string]largeLetter{
		"Fits":    {subject: "orders.7", header: 10, data: 100, wantData: true, wantOwn: true},
		"Server":  {subject: "orders.7", header: 10, data: payload - 100, wantOwn: true, truncated: "16284"},
		"Stream":  {subject: "orders.7", header: 10, data: 2000, most: 1500, wantOwn: true, truncated: "2000"},
		"Headers": {subject: "orders.7", header: payload - 300, data: 10, truncated: "10"},
		"Core":    {subject: "direct", header: 10, data: payload - 100, wantOwn: true, truncated: "16284"},
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
			if test.subject == "direct" {
				args = append(args, "--stream=", "--subject=direct")
			}
			c := consume(t, f, args...)
			eventually(t, "it is connected", func() bool { return c.healthy(t) })
			msg := nats.NewMsg(test.subject)
			msg.Data = []byte(strings.Repeat("d", test.data))
			msg.Header.Set("X-Own", strings.Repeat("h", test.header))
			if err := js.Conn().PublishMsg(msg); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the dead letter is stored", func() bool { return lettersOf(t, dead) == 1 })
			letter, err := dead.GetMsg(t.Context(), 1)
			if err != nil {
				t.Fatal(err)
			}
			test.check(t, letter, msg.Subject)
		})
	}
}
