package streams

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"
)

var full = flag.Bool("full", false, "deliver 10,000 messages during the kills")

// underWay limits how many messages are in flight when a process or a function is killed.
const underWay = 64

// All messages are delivered, in the order of their subjects, while the deliverer and the
// function are killed in any order. Only messages in flight are repeated.
func TestNATSKills(t *testing.T) {
	surviveKills(t)
}

// The same holds for batches.
func TestNATSBatches(t *testing.T) {
	f := surviveKills(t, "--batch=20", "--concurrency=4")
	n := distinct(f)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.requests > n/2 {
		t.Errorf("%d messages were delivered in %d requests", n, f.requests)
	}
}

// surviveKills repeatedly kills a deliverer, with additional arguments, and its function, and
// checks the accepted events. It returns the function.
func surviveKills(t *testing.T, more ...string) *function {
	t.Helper()
	server := newNATS(t, "")
	js := server.connect(t)
	orders(t, js)
	f := newFunction(t, ok)
	c := consume(t, f, server.stock(more...)...)
	twice, kills := killAtRandom(t, f, js, []func(){
		func() { c.restart(syscall.SIGKILL) },
		func() { f.kill(); f.begin() },
		func() { c.restart(syscall.SIGTERM) },
	})
	if twice > kills*underWay {
		t.Errorf("%d messages were accepted twice, want no more than were in flight", twice)
	}
	return f
}

// All messages are delivered, in the order of their subjects, while the server is killed as
// well. The number of repetitions is not limited by the messages in flight: a server persists
// acknowledgements ten times per second.
func TestNATSServerKills(t *testing.T) {
	server := newNATS(t, "")
	js := server.connect(t)
	orders(t, js)
	f := newFunction(t, ok)
	c := consume(t, f, server.stock()...)
	killAtRandom(t, f, js, []func(){
		func() { server.restart(syscall.SIGKILL) },
		func() { c.restart(syscall.SIGKILL) },
	})
}

// killAtRandom publishes messages, calls one of kills repeatedly during the delivery, and waits
// until all are delivered in order. It returns the number of repetitions, and of kills.
func killAtRandom(t *testing.T, f *function, js jetstream.JetStream, victims []func()) (twice, kills int) {
	t.Helper()
	messages, kills := 3000, 6
	if *full {
		messages, kills = 10_000, 40
	}
	const subjects = 25
	publishAll(t, js, messages, subjects)
	for i := range kills {
		// Waits until it has continued, so that each kill is during deliveries.
		enough := len(f.events()) + rand.IntN(messages/kills/2)
		eventually(t, "it delivers", func() bool { return len(f.events()) > enough || distinct(f) == messages })
		if i < len(victims) { // each of them
			victims[i]()
		} else {
			victims[rand.IntN(len(victims))]()
		}
	}
	eventually(t, "all messages are accepted", func() bool { return distinct(f) == messages })
	events := f.events()
	twice = len(events) - messages
	t.Logf("%d of %d messages were accepted twice after %d kills", twice, messages, kills)
	inOrder(t, events)
	return twice, kills
}

// A server that crashes has lost which messages it delivered last. They are not mistaken for
// messages that have been missing since before, and so none is delivered out of order.
func TestNATSCrash(t *testing.T) {
	server := newNATS(t, "")
	js := server.connect(t)
	ordersAgain(t, js, 15*time.Second) // after the crash
	var takes atomic.Bool
	f := newFunction(t, func(cloudevents.Event, int) int {
		if takes.Load() {
			return http.StatusOK
		}
		return http.StatusInternalServerError
	})
	c := consume(t, f, server.stock()...)
	publish(t, js, "orders.7", "0")
	eventually(t, "the first is in flight to the function", func() bool { return f.tried() > 0 })
	c.end(syscall.SIGKILL) // and so the first is missing
	server.end(syscall.SIGTERM)
	file := filepath.Join(server.dir, "jetstream", "$G", "streams", "ORDERS", "obs", "shop", "o.dat")
	given, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	server.begin()
	js = server.connect(t)
	alive, err := js.Conn().SubscribeSync("$JS.ACK.ORDERS.shop.1.2.>")
	if err != nil {
		t.Fatal(err)
	}
	c.begin()
	publish(t, js, "orders.8", "1")
	if _, err := alive.NextMsg(time.Minute); err != nil {
		t.Fatal("no in-progress acknowledgement of the second message:", err)
	}
	server.end(syscall.SIGKILL)
	if err := os.WriteFile(file, given, 0o600); err != nil { // as if it had not written anything since
		t.Fatal(err)
	}
	takes.Store(true)
	server.begin()
	publish(t, server.connect(t), "orders.7", "2")
	eventually(t, "all are accepted", func() bool { return distinct(f) == 3 })
	inOrder(t, f.events())
}

// Messages that a server sends to a request that has timed out are missing, and no later
// message overtakes them.
func TestNATSSlowServer(t *testing.T) {
	server := newNATS(t, "")
	js := server.connect(t)
	ordersAgain(t, js, 10*time.Second)
	slow := newSlowdown(t, strings.TrimPrefix(server.url, "nats://"))
	f := newFunction(t, ok)
	consume(t, f, server.stock("--servers=nats://"+slow.address)...)
	publish(t, js, "orders.7", "0")
	eventually(t, "the first is accepted", func() bool { return distinct(f) == 1 })
	slow.holdAnswers(func() {
		publish(t, js, "orders.7", "1")
		eventually(t, "the server delivers it", func() bool {
			consumer, err := js.Consumer(t.Context(), "ORDERS", "shop")
			return err == nil && consumer.CachedInfo().NumAckPending == 1
		})
		slow.gaveUp.Store(false)
		eventually(t, "the request of the process times out", slow.gaveUp.Load)
	})
	publish(t, js, "orders.7", "2")
	eventually(t, "all are accepted", func() bool { return distinct(f) == 3 })
	inOrder(t, f.events())
}

// slowdown is a proxy between a NATS server and its clients, which can hold data of the server.
type slowdown struct {
	address string
	answers sync.Mutex  // held while the server is not heard
	gaveUp  atomic.Bool // a client has unsubscribed
}

func newSlowdown(t *testing.T, server string) *slowdown {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	s := &slowdown{address: l.Addr().String()}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			upstream, err := net.Dial("tcp", server)
			if err != nil {
				_ = client.Close()
				continue
			}
			go s.forward(client, upstream, &s.answers)
			go s.forward(upstream, client, &sync.Mutex{})
		}
	}()
	return s
}

// forward copies from one connection to another, while the lock is free.
func (s *slowdown) forward(to, from net.Conn, lock sync.Locker) {
	defer func() { _ = to.Close() }()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if bytes.Contains(buffer[:n], []byte("UNSUB")) {
			s.gaveUp.Store(true)
		}
		lock.Lock()
		_, failed := to.Write(buffer[:n])
		lock.Unlock()
		if err != nil || failed != nil {
			return
		}
	}
}

// holdAnswers calls do while data of the server is held.
func (s *slowdown) holdAnswers(do func()) {
	s.answers.Lock()
	defer s.answers.Unlock()
	do()
}

// A process that receives SIGTERM returns the messages that it has, and those that arrive
// meanwhile. None is repeated, and the next process delivers them in order without a delay.
func TestNATSEnd(t *testing.T) {
	const subjects, ends, each = 5, 6, 50
	server := newNATS(t, "")
	js := server.connect(t)
	const wait = 30 * time.Second // before that, nothing comes again but what was given back
	ordersAgain(t, js, wait)
	begun, messages := time.Now(), 0
	next := func() {
		publish(t, js, fmt.Sprintf("orders.%d", messages%subjects), strconv.Itoa(messages))
		messages++
	}
	f := newFunction(t, ok)
	c := consume(t, f, server.stock()...)
	for range ends {
		for range each {
			next()
		}
		eventually(t, "it delivers", func() bool { return len(f.events()) >= messages-each/2 })
		ended := make(chan struct{})
		go func() { c.end(syscall.SIGTERM); close(ended) }()
		for under := true; under; {
			select {
			case <-ended:
				under = false
			default:
				next()
			}
		}
		c.begin()
	}
	eventually(t, "all messages are accepted", func() bool { return distinct(f) == messages })
	twice, took := len(f.events())-messages, time.Since(begun)
	if (twice > 0 || took > wait) && !stalled(t) {
		t.Errorf("%d messages were accepted twice, and it took %s", twice, took)
	}
	inOrder(t, f.events())
}

// Later messages of a subject wait while a message is retried, even if it is unknown whether
// the function has accepted it. Other subjects do not wait.
func TestNATSRetry(t *testing.T) {
	const after = 5
	server := newNATS(t, "")
	js := server.connect(t)
	orders(t, js)
	var f *function
	f = newFunction(t, func(e cloudevents.Event, try int) int {
		if string(e.Data()) == "0" && (try <= 2 || len(f.taken) == 0) {
			return []int{noAnswer, http.StatusInternalServerError}[try%2]
		}
		return http.StatusOK
	})
	for i := range after {
		publish(t, js, "orders.7", strconv.Itoa(i))
	}
	publish(t, js, "orders.8", "beside")
	consume(t, f, server.stock()...)
	eventually(t, "all are accepted", func() bool { return distinct(f) == after+1 })
	var got []string
	for _, e := range f.events() {
		got = append(got, string(e.Data()))
	}
	if diff := cmp.Diff([]string{"beside", "0", "1", "2", "3", "4"}, got); diff != "" {
		t.Errorf("the order (-want +got):\n%s", diff)
	}
}

// Messages that were in flight when a connection was lost are delivered before newer ones.
func TestNATSLostConnection(t *testing.T) {
	server := newNATS(t, "")
	js := server.connect(t)
	ordersAgain(t, js, 5*time.Second) // after the next connection has been made
	l := newLink(t, strings.TrimPrefix(server.url, "nats://"))
	f := newFunction(t, ok)
	c := consume(t, f, append(server.stock(), "--servers=nats://"+l.address)...)
	publish(t, js, "orders.7", "0")
	eventually(t, "the first is accepted", func() bool { return distinct(f) == 1 && c.healthy(t) })
	l.swallow()
	publish(t, js, "orders.7", "1")
	publish(t, js, "orders.7", "2")
	consumer, err := js.Consumer(t.Context(), "ORDERS", "shop")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "both are in flight", func() bool {
		info, err := consumer.Info(t.Context())
		return err == nil && info.NumAckPending == 2
	})
	l.cut()
	publish(t, js, "orders.7", "3")
	eventually(t, "all are accepted", func() bool { return distinct(f) == 4 })
	inOrder(t, f.events())
}
