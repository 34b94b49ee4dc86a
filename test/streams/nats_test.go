package streams

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// natsServer is a NATS server with JetStream, which keeps its data when it is killed.
type natsServer struct {
	*process
	url, dir string
}

// newNATS starts a server with additional configuration.
func newNATS(t *testing.T, configuration string) *natsServer {
	t.Helper()
	longestStall.Store(0)
	dir, at := t.TempDir(), port(t)
	file := filepath.Join(dir, "server.conf")
	text := fmt.Sprintf("listen: 127.0.0.1:%d\njetstream: {store_dir: %q, sync_interval: always}\n%s", at, dir, configuration)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return &natsServer{start(t, "natsserver", "-c", file), fmt.Sprintf("nats://127.0.0.1:%d", at), dir}
}

// connect waits until the server accepts a connection, which reconnects when it is lost.
func (s *natsServer) connect(t *testing.T, options ...nats.Option) jetstream.JetStream {
	t.Helper()
	var js jetstream.JetStream
	eventually(t, "the server accepts connections", func() bool {
		nc, err := nats.Connect(s.url, append(options, nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))...)
		if err != nil {
			return false
		}
		t.Cleanup(nc.Close)
		js, err = jetstream.New(nc, jetstream.WithDefaultTimeout(time.Minute)) // a busy machine is slow
		if err == nil {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err = js.AccountInfo(ctx)
		}
		return err == nil
	})
	return js
}

// orders creates a stream of the subjects below orders, and a consumer that soon redelivers
// what a killed process had.
func orders(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	ordersAgain(t, js, time.Second)
}

// ordersAgain is like orders, with another redelivery time of the consumer.
func ordersAgain(t *testing.T, js jetstream.JetStream, after time.Duration) {
	t.Helper()
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
	if err == nil {
		_, err = js.CreateConsumer(t.Context(), "ORDERS", jetstream.ConsumerConfig{
			Durable: "shop", FilterSubject: "orders.>", AckPolicy: jetstream.AckExplicitPolicy, AckWait: after, MaxAckPending: underWay,
		})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// createStream creates a stream.
func createStream(t *testing.T, js jetstream.JetStream, name string, subjects ...string) jetstream.Stream {
	t.Helper()
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: subjects})
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// createConsumer creates a consumer of the stream ORDERS.
func createConsumer(t *testing.T, js jetstream.JetStream, config jetstream.ConsumerConfig) {
	t.Helper()
	var err error
	if config.DeliverSubject != "" {
		_, err = js.CreatePushConsumer(t.Context(), "ORDERS", config)
	} else {
		_, err = js.CreateConsumer(t.Context(), "ORDERS", config)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func publish(t *testing.T, js jetstream.JetStream, subject, data string) {
	t.Helper()
	msg := nats.NewMsg(subject)
	msg.Data = []byte(data)
	msg.Header.Set("Content-Type", "application/json")
	msg.Header.Set("X-Own", "kept")
	if _, err := js.PublishMsg(t.Context(), msg, jetstream.WithMsgID(subject+data)); err != nil {
		t.Fatal(err)
	}
}

// publishAll publishes numbered messages of several subjects.
func publishAll(t *testing.T, js jetstream.JetStream, messages, subjects int) {
	t.Helper()
	for i := range messages {
		if _, err := js.PublishAsync(fmt.Sprintf("orders.%d", i%subjects), []byte(strconv.Itoa(i)), jetstream.WithStallWait(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	stream, err := js.Stream(t.Context(), "ORDERS")
	if err != nil || stream.CachedInfo().State.Msgs != uint64(messages) {
		t.Fatalf("the stream does not have all messages: %v", err)
	}
}

// stock returns the arguments for the stream orders.
func (s *natsServer) stock(more ...string) []string {
	return append([]string{"--servers=" + s.url, "--stream=ORDERS", "--subject=orders.>", "--consumer=shop", "--concurrency=16"}, more...)
}

// distinct returns the number of distinct events that a function has accepted.
func distinct(f *function) int {
	ids := map[string]bool{}
	for _, e := range f.events() {
		ids[e.ID()] = true
	}
	return len(ids)
}

// inOrder checks that each event is first accepted after the previous ones of the same subject. It
// checks nothing if the machine has stalled: the consumer does not wait indefinitely for redeliveries.
func inOrder(t *testing.T, events []cloudevents.Event) {
	t.Helper()
	if stalled(t) {
		return
	}
	seen, last := map[string]bool{}, map[string]int{}
	for _, e := range events {
		n, err := strconv.Atoi(string(e.Data()))
		if err != nil {
			t.Fatal(err)
		}
		if !seen[e.ID()] && n < last[e.Subject()] {
			t.Errorf("%s of %s was accepted after %d", e.ID(), e.Subject(), last[e.Subject()])
		}
		seen[e.ID()] = true
		last[e.Subject()] = max(last[e.Subject()], n)
	}
}

// The function receives the message as an event with its subject, its headers, and an ID that
// is the same for each attempt.
func TestNATSEvent(t *testing.T) {
	server := newNATS(t, "")
	js := server.connect(t)
	orders(t, js)
	f := newFunction(t, func(_ cloudevents.Event, try int) int {
		return []int{http.StatusServiceUnavailable, http.StatusNotFound, http.StatusOK}[min(try, 3)-1]
	})
	consume(t, f, server.stock()...)
	publish(t, js, "orders.7", `{"n":7}`)
	eventually(t, "it is accepted", func() bool { return distinct(f) == 1 })
	e := f.events()[0]
	got := []string{e.ID(), e.Source(), e.Type(), e.Subject(), e.DataContentType(), string(e.Data())}
	if diff := cmp.Diff([]string{fmt.Sprintf("ORDERS/1/%d", e.Time().UnixNano()), source, "io.goless.nats.message", "orders.7", "application/json", `{"n":7}`}, got); diff != "" {
		t.Errorf("the event (-want +got):\n%s", diff)
	}
	if f.tried() != 3 || e.Time().IsZero() {
		t.Errorf("%d attempts, the event has the time %s", f.tried(), e.Time())
	}
}

// A poisonous message is sent to the dead letter once, with the reason, and later messages
// continue. Without its dead letter they wait, which is reported.
func TestNATSDeadLetter(t *testing.T) {
	server := newNATS(t, "")
	js := server.connect(t)
	orders(t, js)
	f := newFunction(t, func(e cloudevents.Event, _ int) int {
		if string(e.Data()) == "poison" {
			return http.StatusUnprocessableEntity
		}
		return http.StatusOK
	})
	c := consume(t, f, server.stock("--dead-letter=dead.orders")...)
	publish(t, js, "orders.7", "poison")
	publish(t, js, "orders.7", "after")
	publish(t, js, "orders.8", "beside")
	eventually(t, "it reports that the dead letter is missing", func() bool { return c.says(t, "DeadLetterFailed", "dead.orders") })
	eventually(t, "the message of another subject is accepted", func() bool { return distinct(f) == 1 })
	if got := string(f.events()[0].Data()); got != "beside" {
		t.Errorf("%q was accepted, but the previous message of its subject was not", got)
	}
	dead, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "DEAD", Subjects: []string{"dead.>"}})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the next message is accepted", func() bool { return distinct(f) == 2 && c.healthy(t) })
	c.restart(syscall.SIGTERM)
	publish(t, js, "orders.7", "last")
	eventually(t, "a message after a restart is accepted", func() bool { return distinct(f) == 3 })
	info, err := dead.Info(t.Context())
	if err != nil || info.State.Msgs != 1 {
		t.Fatalf("the dead letter has %d messages, %v", info.State.Msgs, err)
	}
	msg, err := dead.GetMsg(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	id, _, _ := strings.Cut(msg.Header.Get("Goless-Id"), "/1/") // before the time at which the stream stored it
	got := []string{string(msg.Data), msg.Header.Get("X-Own"), msg.Header.Get("Goless-Subject"), id, msg.Header.Get("Goless-Source"), msg.Header.Get("Goless-Reason")}
	if diff := cmp.Diff([]string{"poison", "kept", "orders.7", "ORDERS", source, "the response was 422 Unprocessable Entity"}, got); diff != "" {
		t.Errorf("the dead letter (-want +got):\n%s", diff)
	}
	if n := f.tried(); n != 1 {
		t.Errorf("the rejected message was tried %d times", n)
	}
}

// The limits of a consumer of another owner are respected when messages are requested.
func TestNATSLimits(t *testing.T) {
	const messages = 20
	server := newNATS(t, "")
	js := server.connect(t)
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
	if err == nil {
		_, err = stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{
			Durable: "shop", FilterSubject: "orders.>", AckPolicy: jetstream.AckExplicitPolicy, MaxRequestBatch: 2, MaxRequestExpires: time.Second, MaxRequestMaxBytes: 1 << 20,
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	publishAll(t, js, messages, messages)
	f := newFunction(t, ok)
	consume(t, f, server.stock()...)
	eventually(t, "all are accepted", func() bool { return distinct(f) == messages })
}

// Errors of the server for requests are reported. Its messages are delivered when it accepts
// requests again.
func TestNATSRefused(t *testing.T) {
	server := newNATS(t, "")
	js := server.connect(t)
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
	if err == nil {
		_, err = stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "shop", FilterSubject: "orders.>", AckPolicy: jetstream.AckExplicitPolicy, MaxWaiting: 1})
	}
	if err != nil {
		t.Fatal(err)
	}
	other := server.connect(t)
	held, err := other.Consumer(t.Context(), "ORDERS", "shop")
	if err == nil {
		_, err = held.Fetch(1, jetstream.FetchMaxWait(10*time.Minute))
	}
	if err == nil {
		err = other.Conn().Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	f := newFunction(t, ok)
	c := consume(t, f, server.stock()...)
	eventually(t, "it reports the error of the server", func() bool { return c.says(t, "NotConnected", "Exceeded MaxWaiting") })
	other.Conn().Close()
	publish(t, js, "orders.7", "0")
	eventually(t, "the message is accepted", func() bool { return distinct(f) == 1 && c.healthy(t) })
}

// A message that exceeds the maximum size of a consumer's requests is reported, and delivered
// when the limit is raised.
func TestNATSTooLarge(t *testing.T) {
	server := newNATS(t, "")
	js := server.connect(t)
	config := jetstream.ConsumerConfig{Durable: "shop", FilterSubject: "orders.>", AckPolicy: jetstream.AckExplicitPolicy, MaxRequestMaxBytes: 100}
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
	if err == nil {
		_, err = stream.CreateConsumer(t.Context(), config)
	}
	if err != nil {
		t.Fatal(err)
	}
	publish(t, js, "orders.7", strings.Repeat("7", 1000))
	f := newFunction(t, ok)
	c := consume(t, f, server.stock()...)
	eventually(t, "it reports that the message is too large", func() bool { return c.says(t, "NotConnected", "larger than the 100 bytes") })
	config.MaxRequestMaxBytes = 0
	if _, err := stream.UpdateConsumer(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the message is accepted", func() bool { return distinct(f) == 1 && c.healthy(t) })
}

// While the function rejects events, it is not called in a hot loop, and the events wait. The
// status reports their number, and that they are blocked.
func TestNATSBlocked(t *testing.T) {
	server := newNATS(t, "")
	js := server.connect(t)
	const wait = 3 * time.Second
	ordersAgain(t, js, wait)
	f := newFunction(t, func(cloudevents.Event, int) int { return http.StatusForbidden })
	c := consume(t, f, server.stock()...)
	for i := range 100 {
		publish(t, js, "orders.7", strconv.Itoa(i))
	}
	eventually(t, "it reports that it is blocked", func() bool {
		s := c.status(t)
		return s != nil && s.has("Blocked", "ORDERS/1") && s.Lag != nil && *s.Lag == 100
	})
	acks, err := js.Conn().SubscribeSync("$JS.ACK.ORDERS.shop.>")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "each message is marked as in progress twice before it would be redelivered", func() bool {
		seen := map[string]int{} // by sequence in the stream
		for begun := time.Now(); time.Since(begun) < wait; {
			ack, err := acks.NextMsg(wait / 10)
			if err == nil && string(ack.Data) == "+WPI" {
				seen[strings.Split(ack.Subject, ".")[5]]++
			}
		}
		consumer, err := js.Consumer(t.Context(), "ORDERS", "shop")
		return err == nil && len(seen) > 0 && len(seen) == consumer.CachedInfo().NumAckPending && slices.Min(slices.Collect(maps.Values(seen))) >= 2
	})
	if n := f.tried(); n > 3 {
		t.Errorf("it was tried %d times", n)
	}
}

// Without a stream, messages are delivered while the process runs.
func TestNATSCore(t *testing.T) {
	server := newNATS(t, "")
	js := server.connect(t)
	f := newFunction(t, ok)
	c := consume(t, f, "--servers="+server.url, "--subject=orders.*", "--consumer=shop")
	eventually(t, "it is connected", func() bool { return c.healthy(t) })
	for i := range 50 {
		if err := js.Conn().Publish("orders.7", []byte(strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all are accepted", func() bool { return distinct(f) == 50 })
	inOrder(t, f.events())
	server.restart(syscall.SIGKILL)
	eventually(t, "it reports that the connection is lost, or is connected again", func() bool {
		_ = js.Conn().Publish("orders.7", []byte("50"))
		return distinct(f) > 50
	})
}
