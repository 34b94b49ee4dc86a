package buildservice

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"goless.io/builder"
	"goless.io/builder/buildapi"
	"goless.io/builder/handler"
	"goless.io/builder/internal/compile"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/toolchain"
)

func TestMain(m *testing.M) {
	compile.EnterSandbox()
	dir, err := os.MkdirTemp("", "goless-service-")
	if err != nil {
		panic(err)
	}
	scratch = dir
	code := m.Run()
	_ = os.RemoveAll(dir) // in the temporary directory
	os.Exit(code)
}

// scratch is a directory that several tests share.
var scratch string

// seed is an arbitrary seed.
var seed = bytes.Repeat([]byte{7}, buildapi.SeedSize)

const header = "package p\n\nimport \"net/http\"\n\nfunc Handler(w http.ResponseWriter, r *http.Request) {}\n\n"

// endless makes the type checker run indefinitely: golang.org/issue/78341.
const endless = header + "type I[T any] interface{ M() interface{ I[*T] } }\n"

// source returns a Function that no other test builds.
func source(t *testing.T, more string) string {
	return header + "// " + t.Name() + "\n" + more
}

// machineToolchain is the installed toolchain with a plan, as in an image.
var machineToolchain = sync.OnceValues(func() (*toolchain.Toolchain, error) {
	found, err := toolchain.Find(context.Background(), append(os.Environ(), "KO_DATA_PATH="))
	if err != nil {
		return nil, err
	}
	plan, err := plan(found)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(plan)
	if err != nil {
		return nil, err
	}
	found.Plan, found.Sealed, found.Network = filepath.Join(scratch, "plan.json"), true, nil
	return found, os.WriteFile(found.Plan, data, 0o600)
})

// plan makes a plan for a Function with the imports of all Functions in these tests.
func plan(tools *toolchain.Toolchain) (*compile.Plan, error) {
	parsed, err := handler.Parse(handler.Filename, []byte(header))
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(scratch, "program")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	written, err := program.Write(dir, parsed)
	if err != nil {
		return nil, err
	}
	// Compiled packages are in the cache only after MakePlan has ended, and a plan refers to the
	// cache.
	if _, err := compile.MakePlan(context.Background(), tools, written); err != nil {
		return nil, err
	}
	return compile.MakePlan(context.Background(), tools, written)
}

// A replica is a replica that serves on this machine.
type replica struct {
	*Service
	url    string
	keys   *buildapi.Keys
	client *buildapi.Client
	log    *logBuffer
	end    func() // stops the replica and waits until it has ended
}

// silence is the MaxSilence of the clients of replicas, which run in the process of the tests.
const silence = 2 * time.Minute

// newReplica starts a replica. It has its own store unless c sets one.
func newReplica(t *testing.T, c Config) *replica {
	t.Helper()
	var err error
	if c.Keys == nil {
		if c.Keys, err = buildapi.NewKeys(seed); err != nil {
			t.Fatal(err)
		}
	}
	if c.Toolchain, err = machineToolchain(); err != nil {
		t.Fatal(err)
	}
	if c.Store == "" {
		c.Store = t.TempDir()
	}
	log := &logBuffer{}
	c.Log = slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	s.orders.MaxSilence = silence
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, listener) }()
	r := &replica{Service: s, url: "https://" + listener.Addr().String(), keys: c.Keys, log: log}
	r.client = buildapi.NewClient(r.url, c.Keys)
	r.client.MaxSilence = silence
	r.end = sync.OnceFunc(func() {
		stop()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(func() {
		r.end()
		if left, _ := filepath.Glob(filepath.Join(c.Store, unfinished+"*")); len(left) > 0 {
			t.Errorf("the store is left with %q", left)
		}
		if t.Failed() {
			t.Logf("the log of %s:\n%s", r.url, log)
		}
	})
	return r
}

// build orders a build and waits for its report.
func (r *replica) build(t *testing.T, o buildapi.Order) (key string, report builder.Report) {
	t.Helper()
	event, err := r.client.Build(t.Context(), o, nil)
	if err != nil {
		t.Fatalf("Build: %v", err)
	}
	if err := json.Unmarshal(event.Report, &report); err != nil {
		t.Fatal(err)
	}
	return event.Key, report
}

// waiting returns the number of clients that wait for the build of a key.
func (r *replica) waiting(key string) int {
	r.builds.mu.Lock()
	defer r.builds.mu.Unlock()
	_, going := r.builds.find(key)
	return going.waiting
}

// An answer is the response to a request for a binary.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// fetch requests a binary like a pod.
func (r *replica) fetch(t *testing.T, key string, seconds int) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+buildapi.BinariesPath+key, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+r.keys.Capability(key))
	request.Header.Set("Prefer", fmt.Sprintf("wait=%d", seconds))
	transport := &http.Transport{TLSClientConfig: r.keys.ClientTLS()}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, body}
}

// binary fetches a binary that must exist and be valid.
func (r *replica) binary(t *testing.T, key string) []byte {
	t.Helper()
	got := r.fetch(t, key, 60)
	if got.status != http.StatusOK {
		t.Fatalf("fetching the binary: %d, %s", got.status, got.body)
	}
	content, err := hash(bytes.NewReader(got.body))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.keys.Verify(key, content, got.header.Get(buildapi.SignatureHeader)); err != nil {
		t.Errorf("the binary: %v", err)
	}
	return got.body
}

// missing checks that a binary is missing, with an explanation.
func (r *replica) missing(t *testing.T, key, why string) {
	t.Helper()
	if got := r.fetch(t, key, 0); got.status != http.StatusNotFound || !strings.Contains(string(got.body), why) {
		t.Errorf("fetching the binary: %d, %s, want 404 and %q", got.status, got.body, why)
	}
}

// A logBuffer records log lines.
type logBuffer struct {
	mu    sync.Mutex
	lines strings.Builder
}

// Write records a line.
func (b *logBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lines.Write(line)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lines.String()
}

// builds returns the reasons of all logged builds.
func (b *logBuffer) builds(t *testing.T) (reasons []string) {
	t.Helper()
	for line := range strings.Lines(b.String()) {
		var entry struct{ Msg, Reason string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		if entry.Msg == "build" {
			reasons = append(reasons, entry.Reason)
		}
	}
	return reasons
}

// await waits a limited time for a condition.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waiting in vain until %s", what)
		}
	}
}
