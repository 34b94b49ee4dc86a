package streams

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
)

// programs are the paths of the programs that the tests start, by name.
var programs = map[string]string{}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "goless-streams-")
	if err == nil {
		err = errors.Join(build(dir, "consume", "../../trigger", "./cmd/consume"), build(dir, "natsserver", "..", "./natsserver"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "building what the tests start:", err)
		os.Exit(1)
	}
	go meterStalls()
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// build compiles a program of a module.
func build(dir, name, module, pattern string) error {
	programs[name] = filepath.Join(dir, name)
	cmd := exec.Command("go", "build", "-o", programs[name], pattern)
	cmd.Dir, cmd.Env = module, append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

// process can be killed, and restarted with the same arguments.
type process struct {
	t    *testing.T
	name string
	args []string
	cmd  *exec.Cmd
}

func start(t *testing.T, name string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: name, args: args}
	p.begin()
	t.Cleanup(func() { p.end(syscall.SIGKILL) })
	return p
}

func (p *process) begin() {
	p.t.Helper()
	p.cmd = exec.Command(programs[p.name], p.args...)
	p.cmd.Stdout, p.cmd.Stderr = p.t.Output(), p.t.Output()
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
}

// end sends a signal, and waits for the exit.
func (p *process) end(signal os.Signal) {
	_ = p.cmd.Process.Signal(signal) // it may have ended
	_ = p.cmd.Wait()
}

func (p *process) restart(signal os.Signal) {
	p.end(signal)
	p.begin()
}

// port returns an unused port.
func port(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // it was never used
	return l.Addr().(*net.TCPAddr).Port
}

// function accepts events, each of which must be a CloudEvent, and records them in order.
type function struct {
	t       *testing.T
	address string
	server  *http.Server

	mu     sync.Mutex
	answer func(cloudevents.Event, int) int // the status for the n-th try of an event, counted from 1
	tries  map[string]int
	taken  []cloudevents.Event

	requests int
}

func newFunction(t *testing.T, answer func(cloudevents.Event, int) int) *function {
	t.Helper()
	f := &function{t: t, answer: answer, tries: map[string]int{}, address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port(t)))}
	f.begin()
	t.Cleanup(f.kill)
	return f
}

// noAnswer, used instead of a status, makes the function accept an event and close the
// connection.
const noAnswer = 0

func ok(cloudevents.Event, int) int { return http.StatusOK }

func (f *function) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil { // the test killed the function or the deliverer during the request
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	events, err := read(r)
	if err != nil {
		f.t.Errorf("invalid CloudEvents: %v", err)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests++
	code := http.StatusOK
	for _, e := range events {
		f.tries[e.ID()]++
		if answer := f.answer(e, f.tries[e.ID()]); answer != http.StatusOK {
			code = answer
		}
	}
	switch code {
	case noAnswer:
		panic(http.ErrAbortHandler)
	case http.StatusOK:
		f.taken = append(f.taken, events...)
	}
	w.WriteHeader(code)
}

// read returns the event of a request, or those of a batch.
func read(r *http.Request) ([]cloudevents.Event, error) {
	if cehttp.IsHTTPBatch(r.Header) {
		events, err := cehttp.NewEventsFromHTTPRequest(r)
		for _, e := range events {
			err = errors.Join(err, e.Validate())
		}
		return events, err
	}
	e, err := cehttp.NewEventFromHTTPRequest(r)
	if err != nil {
		return nil, err
	}
	return []cloudevents.Event{*e}, e.Validate()
}

func (f *function) begin() {
	var l net.Listener
	eventually(f.t, "the function listens", func() bool {
		var err error
		l, err = net.Listen("tcp", f.address)
		return err == nil
	})
	f.server = &http.Server{Handler: f, ReadHeaderTimeout: time.Minute}
	go f.server.Serve(l) //nolint:errcheck // it ends with an error
}

// kill closes all connections.
func (f *function) kill() { _ = f.server.Close() }

// events returns the accepted events, in order.
func (f *function) events() []cloudevents.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]cloudevents.Event(nil), f.taken...)
}

// tried returns how often the first messages of the stream were delivered.
func (f *function) tried() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for id, tries := range f.tries {
		if id == "ORDERS/1" || strings.HasPrefix(id, "ORDERS/1/") {
			n += tries
		}
	}
	return n
}

// consumer is the process that delivers to a function.
type consumer struct {
	*process
	admin string
}

const source = "/apis/goless.io/v1alpha1/namespaces/shop/natstriggers/orders"

func consume(t *testing.T, f *function, args ...string) *consumer {
	t.Helper()
	c := &consumer{admin: net.JoinHostPort("127.0.0.1", strconv.Itoa(port(t)))}
	c.process = start(t, "consume", append([]string{"nats", "--admin=" + c.admin, "--url=http://" + f.address + "/in", "--source=" + source}, args...)...)
	return c
}

// status returns the status that the process reports; nil while it does not respond.
func (c *consumer) status(t *testing.T) *status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.admin+"/status", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	body, err := io.ReadAll(answer.Body)
	s := &status{}
	if err != nil || json.Unmarshal(body, s) != nil {
		return nil
	}
	return s
}

// says reports whether it has a problem with a reason, whose message contains a text.
func (c *consumer) says(t *testing.T, reason, text string) bool {
	t.Helper()
	s := c.status(t)
	return s != nil && s.has(reason, text)
}

// healthy reports whether it has no problem.
func (c *consumer) healthy(t *testing.T) bool {
	t.Helper()
	s := c.status(t)
	return s != nil && len(s.Problems) == 0
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("timed out waiting until", what)
		}
	}
}

// longestStall is the longest time in nanoseconds for which this process did not run.
var longestStall atomic.Int64

func meterStalls() {
	for last := time.Now(); ; last = time.Now() {
		time.Sleep(20 * time.Millisecond)
		longestStall.Store(max(longestStall.Load(), int64(time.Since(last))))
	}
}

// stalled reports whether the machine stalled during the test for as long as the timeouts of the
// consumer.
func stalled(t *testing.T) bool {
	t.Helper()
	longest := time.Duration(longestStall.Load())
	t.Logf("the longest stall was %s", longest)
	return longest > 2*time.Second
}
