package buildservice

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"goless.io/builder"
	"goless.io/builder/buildapi"
	"goless.io/builder/internal/compile"
	"goless.io/builder/internal/toolchain"
)

// TestBuild orders a build and checks that the binary equals that of an in-pod build.
func TestBuild(t *testing.T) {
	r := newReplica(t, Config{})
	o := buildapi.Order{Namespace: "team-a", Source: source(t, "")}
	var told []buildapi.Event
	last, err := r.client.Build(t.Context(), o, func(e buildapi.Event) { told = append(told, e) })
	if err != nil {
		t.Fatal(err)
	}
	var report builder.Report
	if err := json.Unmarshal(last.Report, &report); err != nil || report.Reason != builder.Built {
		t.Fatalf("the report: %s, %v", last.Report, err)
	}
	want := []buildapi.Event{{Key: last.Key}, {Key: last.Key, Begun: true}, {Key: last.Key, Report: last.Report}}
	if diff := cmp.Diff(want, told); diff != "" || len(last.Key) != 64 {
		t.Errorf("events: -want +got\n%s", diff)
	}

	tools, err := machineToolchain()
	if err != nil {
		t.Fatal(err)
	}
	output := filepath.Join(t.TempDir(), "server")
	if _, err := (&builder.Builder{Toolchain: tools}).Build(t.Context(), []byte(o.Source), output); err != nil {
		t.Fatal(err)
	}
	inPod, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(inPod, r.binary(t, last.Key)) {
		t.Error("the binary is another one than a container builds")
	}
}

func TestKey(t *testing.T) {
	r := newReplica(t, Config{})
	o := buildapi.Order{Namespace: "team-a", Source: source(t, "")}
	same := o
	same.Timeout, same.Memory, same.Environment = 1, 1, map[string]string{}
	if r.key(o) != r.key(same) {
		t.Error("limits are part of the key")
	}
	others := map[string]string{r.key(o): "the order itself"}
	for name, change := range map[string]func(o *buildapi.Order){
		"a source":                    func(o *buildapi.Order) { o.Source += "\n" },
		"tests":                       func(o *buildapi.Order) { o.Tests = true },
		"a namespace":                 func(o *buildapi.Order) { o.Namespace = "team-b" },
		"a module proxy":              func(o *buildapi.Order) { o.Environment = map[string]string{"GOPROXY": "https://a.example"} },
		"another module proxy":        func(o *buildapi.Order) { o.Environment = map[string]string{"GOPROXY": "off"} },
		"private modules":             func(o *buildapi.Order) { o.Environment = map[string]string{"GOPRIVATE": "off"} },
		"private modules and a proxy": func(o *buildapi.Order) { o.Environment = map[string]string{"GOPRIVATE": "off", "GOPROXY": "off"} },
		"one value like two":          func(o *buildapi.Order) { o.Environment = map[string]string{"GOPRIVATE": "off\nGOPROXY=off"} },
	} {
		other := o
		change(&other)
		key := r.key(other)
		if same, ok := others[key]; ok {
			t.Errorf("%s has the key of %s", name, same)
		}
		if others[key] = name; key != r.key(other) {
			t.Errorf("%s has several keys", name)
		}
	}
}

// TestEnvironmentIsSorted checks that the builders for equal orders have equal network settings,
// which are part of the key of dependencies.
func TestEnvironmentIsSorted(t *testing.T) {
	r := newReplica(t, Config{})
	o := buildapi.Order{Environment: map[string]string{"GOPROXY": "https://a.example", "GOSUMDB": "off", "GOPRIVATE": "b.example", "NO_PROXY": ".svc", "HTTPS_PROXY": "https://c.example"}}
	want := r.builder(o).Toolchain.Network
	for range 20 {
		if diff := cmp.Diff(want, r.builder(o).Toolchain.Network); diff != "" {
			t.Fatalf("the network of an equal order: -want +got\n%s", diff)
		}
	}
}

func TestOrdersBuildOnce(t *testing.T) {
	r := newReplica(t, Config{})
	o := buildapi.Order{Namespace: "team-a", Source: source(t, "")}
	var asking sync.WaitGroup
	for range 20 {
		asking.Go(func() {
			event, err := r.client.Build(t.Context(), o, nil)
			if err != nil || !strings.Contains(string(event.Report), `"Built"`) {
				t.Errorf("Build: %s, %v", event.Report, err)
			}
		})
	}
	asking.Wait()
	r.build(t, o)
	if made := r.log.builds(t); !slices.Equal(made, []string{"Built"}) {
		t.Errorf("builds: %q, want a single one", made)
	}
}

func TestFailuresOfSources(t *testing.T) {
	r := newReplica(t, Config{})
	cases := map[string]struct {
		source string
		reason builder.Reason
		says   string
	}{
		"CompileFailed": {source(t, "var x int = \"a\"\n"), builder.CompileFailed, "handler.go:8:13: cannot use"},
		"InvalidSource": {"package main\n", builder.InvalidSource, "handler.go:1:9: "},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := buildapi.Order{Namespace: "team-a", Source: c.source}
			before := len(r.log.builds(t))
			for range 2 {
				key, report := r.build(t, o)
				if report.Reason != c.reason || len(report.Diagnostics) == 0 || !strings.HasPrefix(report.Diagnostics[0].String(), c.says) {
					t.Errorf("the report: %+v, want %s and %q", report, c.reason, c.says)
				}
				r.missing(t, key, "does not compile")
			}
			if made := r.log.builds(t)[before:]; len(made) != 1 {
				t.Errorf("builds: %q, want one that is remembered", made)
			}
		})
	}
}

// TestModulesAreAskedForAgain covers a proxy that is enabled later, and a version that is published
// later.
func TestModulesAreAskedForAgain(t *testing.T) {
	r := newReplica(t, Config{})
	archive := "-- go.mod --\nmodule example.com/m\n\ngo 1.26\n\nrequire example.com/none v1.0.0\n" +
		"-- go.sum --\nexample.com/none v1.0.0 h1:MPQpqcFuBqEkfN8JhJ4LPgBpuqcAaWxSpEm0i1CqoRU=\n" +
		"-- a.go --\n" + strings.Replace(header, "import", "import _ \"example.com/none\"\nimport", 1)
	o := buildapi.Order{Namespace: "team-a", Source: archive, Environment: map[string]string{"GOPROXY": "off"}}
	for range 2 {
		if _, report := r.build(t, o); report.Reason != builder.CompileFailed {
			t.Errorf("the report: %+v, want CompileFailed", report)
		}
	}
	if made := r.log.builds(t); len(made) != 2 {
		t.Errorf("builds: %q, want two", made)
	}
}

// TestLimitsAreNotShared orders the same source with different limits at the same time. A short
// timeout does not affect the other order.
func TestLimitsAreNotShared(t *testing.T) {
	r := newReplica(t, Config{})
	for name, hasty := range map[string]buildapi.Order{
		"Time":   {Namespace: "team-a", Source: source(t, "// time\n"), Timeout: 1},
		"Memory": {Namespace: "team-a", Source: source(t, "// memory\n"), Memory: 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			patient := buildapi.Order{Namespace: hasty.Namespace, Source: hasty.Source}
			slots := hold(t, r.queue, r.config.Parallel) // until both have ordered
			var asking sync.WaitGroup
			orderBeside(t, r, &asking, hasty, "")
			orderBeside(t, r, &asking, patient, `"Built"`)
			for _, slot := range slots {
				r.queue.leave(slot)
			}
			asking.Wait()
			if _, report := r.build(t, patient); report.Reason != builder.Built {
				t.Errorf("what is kept is %+v", report)
			}
		})
	}
}

// orderBeside orders a build in the background and returns when the order is accepted. The report
// must contain want.
func orderBeside(t *testing.T, r *replica, asking *sync.WaitGroup, o buildapi.Order, want string) {
	t.Helper()
	accepted := make(chan struct{})
	accept := sync.OnceFunc(func() { close(accepted) })
	asking.Go(func() {
		event, err := r.client.Build(t.Context(), o, func(buildapi.Event) { accept() })
		if err != nil || !strings.Contains(string(event.Report), want) {
			t.Errorf("with %s and %d bytes: %s, %v", o.Timeout, o.Memory, event.Report, err)
		}
	})
	<-accepted
}

// hold occupies slots of a queue.
func hold(t *testing.T, q *queue, slots int) (taken []*queuedBuild) {
	t.Helper()
	for i := range slots {
		slot, err := q.enter(fmt.Sprintf("holder-%d", i), 1, false)
		if err != nil {
			t.Fatal(err)
		}
		<-slot.started
		taken = append(taken, slot)
	}
	return taken
}

// TestWaitingIsTold checks that the client of a queued build receives a Waiting event.
func TestWaitingIsTold(t *testing.T) {
	r := newReplica(t, Config{})
	slots := hold(t, r.queue, r.config.Parallel)
	var told []buildapi.Event
	last, err := r.client.Build(t.Context(), buildapi.Order{Namespace: "team-a", Source: source(t, "")}, func(e buildapi.Event) {
		told = append(told, e)
		if e.Waiting {
			for _, slot := range slots {
				r.queue.leave(slot)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []buildapi.Event{{Key: last.Key}, {Key: last.Key, Waiting: true}, {Key: last.Key, Begun: true}, {Key: last.Key, Report: last.Report}}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("events: -want +got\n%s", diff)
	}
	// The message may continue: go vet exceeds its memory limit at times if this test binary, which
	// runs it, has the race detector.
	if message := `"message":"built in [0-9.]+m?s after waiting [0-9]+s in the queue["; ]`; !regexp.MustCompile(message).Match(last.Report) {
		t.Errorf("the report is %s, want %s", last.Report, message)
	}
}

// TestLimits orders builds with limits above and below those of the service, and without limits.
func TestLimits(t *testing.T) {
	image, machine := &toolchain.Toolchain{Sealed: true}, &toolchain.Toolchain{}
	for name, c := range map[string]struct {
		toolchain *toolchain.Toolchain
		most      time.Duration
		ordered   time.Duration
		want      time.Duration
	}{
		"Default": {image, 10 * time.Minute, 0, builder.DefaultTimeout},
		"Slow":    {machine, 10 * time.Minute, 0, builder.SlowTimeout},
		"Short":   {image, time.Second, 0, time.Second},
		"Less":    {image, time.Minute, time.Second, time.Second},
		"More":    {image, time.Minute, time.Hour, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Service{config: Config{Toolchain: c.toolchain, MaxTimeout: c.most, MaxMemory: 1 << 30}}
			if timeout, memory := s.limits(buildapi.Order{Timeout: c.ordered}); timeout != c.want || memory != DefaultMemory {
				t.Errorf("limits: %s and %d bytes, want %s and %d", timeout, memory, c.want, DefaultMemory)
			}
		})
	}
}

func TestTimeoutIsNotRemembered(t *testing.T) {
	r := newReplica(t, Config{MaxTimeout: 1e9})
	o := buildapi.Order{Namespace: "team-a", Source: endless, Timeout: 3600e9}
	for range 2 {
		// The reason differs if concurrent tests use the processors.
		if _, report := r.build(t, o); report.Reason != builder.BuildTimeout && !strings.HasPrefix(report.Message, compile.ErrBusy.Error()) {
			t.Errorf("the report: %+v, want BuildTimeout after the most that the service allows", report)
		}
	}
	if made := r.log.builds(t); len(made) != 2 {
		t.Errorf("builds: %q, want two", made)
	}
}

// TestCancel checks that a build continues when one of two clients leaves, and is cancelled when
// both have left.
func TestCancel(t *testing.T) {
	r := newReplica(t, Config{})
	o := buildapi.Order{Namespace: "team-a", Source: endless}
	var asking sync.WaitGroup
	var cancels [2]context.CancelFunc
	for i := range cancels {
		ctx, cancel := context.WithCancel(t.Context())
		cancels[i] = cancel
		accepted := make(chan struct{})
		accept := sync.OnceFunc(func() { close(accepted) })
		asking.Go(func() {
			if _, err := r.client.Build(ctx, o, func(buildapi.Event) { accept() }); err == nil {
				t.Error("what does not end has ended")
			}
		})
		<-accepted
	}
	key := r.key(o)
	cancels[0]()
	await(t, "the first has left", func() bool { return r.waiting(key) == 1 })
	if made := r.log.builds(t); len(made) != 0 {
		t.Errorf("builds: %q, want one that goes on as somebody waits", made)
	}
	cancels[1]()
	asking.Wait()
	await(t, "the build has ended", func() bool { return slices.Equal(r.log.builds(t), []string{"Cancelled"}) })
	r.missing(t, key, "binary not found")
}

func TestWrongRequests(t *testing.T) {
	r := newReplica(t, Config{})
	o := buildapi.Order{Namespace: "team-a", Source: source(t, "")}
	key, _ := r.build(t, o)
	good := `{"namespace": "team-a", "source": "package p"}`
	cases := map[string]struct {
		method, path, token, body string
		want                      int
	}{
		"NoToken":            {"POST", buildapi.BuildsPath, "", good, 401},
		"WrongToken":         {"POST", buildapi.BuildsPath, r.keys.Token() + "x", good, 401},
		"CapabilityAsToken":  {"POST", buildapi.BuildsPath, r.keys.Capability(key), good, 401},
		"NoOrder":            {"POST", buildapi.BuildsPath, r.keys.Token(), "", 400},
		"TwoOrders":          {"POST", buildapi.BuildsPath, r.keys.Token(), good + good, 400},
		"TrailingBrace":      {"POST", buildapi.BuildsPath, r.keys.Token(), good + "}", 400},
		"NoNamespace":        {"POST", buildapi.BuildsPath, r.keys.Token(), `{"source": "package p"}`, 400},
		"NoSource":           {"POST", buildapi.BuildsPath, r.keys.Token(), `{"namespace": "a"}`, 400},
		"OtherKey":           {"POST", buildapi.BuildsPath, r.keys.Token(), `{"namespace": "team-a", "source": "package p", "key": "0"}`, 409},
		"Environment":        {"POST", buildapi.BuildsPath, r.keys.Token(), `{"namespace": "a", "source": "package p", "environment": {"PATH": "/"}}`, 400},
		"Timeout":            {"POST", buildapi.BuildsPath, r.keys.Token(), `{"namespace": "a", "source": "package p", "timeout": "soon"}`, 400},
		"Large":              {"POST", buildapi.BuildsPath, r.keys.Token(), `{"source": "` + strings.Repeat("x", buildapi.MaxOrder) + `"}`, 400},
		"GetBuilds":          {"GET", buildapi.BuildsPath, r.keys.Token(), "", 405},
		"NoCapability":       {"GET", buildapi.BinariesPath + key, "", "", 403},
		"OtherCapability":    {"GET", buildapi.BinariesPath + key, r.keys.Capability(strings.Repeat("0", 64)), "", 403},
		"TokenAsCapability":  {"GET", buildapi.BinariesPath + key, r.keys.Token(), "", 403},
		"Unknown":            {"GET", buildapi.BinariesPath + "0", r.keys.Capability("0"), "", 404},
		"Escape":             {"GET", buildapi.BinariesPath + "..%2f..%2fetc%2fpasswd", r.keys.Capability("../../etc/passwd"), "", 404},
		"List":               {"GET", buildapi.BinariesPath, r.keys.Token(), "", 404},
		"SomethingElse":      {"GET", "/", r.keys.Token(), "", 404},
		"Health":             {"GET", "/healthz", "", "", 404},
		"PutIsNotOffered":    {"PUT", buildapi.BinariesPath + key, r.keys.Token(), "", 405},
		"DeleteIsNotOffered": {"DELETE", buildapi.BinariesPath + key, r.keys.Capability(key), "", 405},
	}
	transport := &http.Transport{TLSClientConfig: r.keys.ClientTLS()}
	defer transport.CloseIdleConnections()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), c.method, r.url+c.path, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Authorization", "Bearer "+c.token)
			response, err := transport.RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close() //nolint:errcheck // only the status matters
			if response.StatusCode != c.want {
				t.Errorf("%s, want %d", response.Status, c.want)
			}
		})
	}
	if made := r.log.builds(t); len(made) != 1 {
		t.Errorf("builds: %q, want the one of the right order", made)
	}
}

// TestStrangersMustNotWait sends only the header of a request.
func TestStrangersMustNotWait(t *testing.T) {
	r := newReplica(t, Config{})
	for name, head := range map[string]string{
		"Order":   "POST " + buildapi.BuildsPath + " HTTP/1.1",
		"Binary":  "GET " + buildapi.BinariesPath + "0 HTTP/1.1",
		"Pod":     "GET " + buildapi.BinariesPath + "0 HTTP/1.1\r\nAuthorization: Bearer " + r.keys.Capability("0"),
		"Nothing": "POST / HTTP/1.1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			connection, err := tls.Dial("tcp", strings.TrimPrefix(r.url, "https://"), r.keys.ClientTLS())
			if err != nil {
				t.Fatal(err)
			}
			defer connection.Close() //nolint:errcheck // the other side has closed it
			if _, err := connection.Write([]byte(head + "\r\nHost: x\r\nContent-Length: 10\r\n\r\n")); err != nil {
				t.Fatal(err)
			}
			if err := connection.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(connection)
			if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 4") {
				t.Errorf("the answer is %q, %v, want that it is refused, and that the connection ends", answer, err)
			}
		})
	}
}

// TestOrderByKey sends orders without a source, for a binary that was built before and for others.
func TestOrderByKey(t *testing.T) {
	r := newReplica(t, Config{})
	o := buildapi.Order{Namespace: "team-a", Source: source(t, "")}
	built, err := r.client.Build(t.Context(), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := r.client.Build(t.Context(), buildapi.Order{Namespace: "team-a", Key: built.Key}, nil)
	if diff := cmp.Diff(built, again); err != nil || diff != "" {
		t.Errorf("the result by its key: %v, -want +got\n%s", err, diff)
	}
	if _, err := r.client.Build(t.Context(), buildapi.Order{Namespace: "team-a", Key: "other"}, nil); !buildapi.Unknown(err) {
		t.Errorf("another key: %v, want that it is unknown", err)
	}
}
