package runtime_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"goless.io/runtime"
)

// asProgram makes the test binary a program that calls runtime.Main. panickingGauge registers a
// gauge that panics when it is read, and hangingGauge one that hangs.
const (
	asProgram      = "GOLESS_TEST_PROGRAM"
	panickingGauge = "GOLESS_TEST_PANICKING_GAUGE"
	hangingGauge   = "GOLESS_TEST_HANGING_GAUGE"
	hooks          = "GOLESS_TEST_HOOKS"
)

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		promauto.NewCounter(prometheus.CounterOpts{Name: "orders_total", Help: "The user's own."}).Inc()
		promauto.NewCounter(prometheus.CounterOpts{Name: "visits", Help: "Has no suffix."}).Inc()
		promauto.NewGauge(prometheus.GaugeOpts{Name: "goless_panics_total", Help: "Contradicts ours."})
		if os.Getenv(panickingGauge) != "" {
			promauto.NewGaugeFunc(prometheus.GaugeOpts{Name: "stock"}, func() float64 { panic("no stock") })
		}
		if os.Getenv(hangingGauge) != "" {
			promauto.NewGaugeFunc(prometheus.GaugeOpts{Name: "stock"}, func() float64 { select {} })
		}
		runtime.Main(userFunction(os.Getenv(hooks)))
	}
	os.Exit(m.Run())
}

// userHandler changes the process in ways that user code can.
func userHandler(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/interfere":
		interfere()
	case "/print":
		log.Print("printed\nin two lines")
		slog.WarnContext(r.Context(), "structured", "n", 1, "took", 1500*time.Millisecond, slog.Group("order", "id", "66"))
		slog.InfoContext(r.Context(), "doubled", "level", "gold", "request_id", "mine")
		slog.With("n", 1).WithGroup("order").With("id", "66").ErrorContext(r.Context(), "grouped", "total", 7)
	case "/hang":
		_, _ = fmt.Fprintln(w, "hanging")
		w.(http.Flusher).Flush()
		select {}
	case "/fatal":
		log.Fatal("no database")
	case "/exit":
		os.Exit(3)
	case "/goroutine":
		go panic("in a goroutine")
		select {}
	}
}

// program is a process that runs runtime.Main.
type program struct {
	t          *testing.T
	cmd        *exec.Cmd
	log        *lockedBuffer
	url, admin string
}

// launch starts a program with additional environment variables and inherited listeners, and
// waits until it is ready.
func launch(t *testing.T, env ...string) *program {
	t.Helper()
	p := newProgram(t, env...)
	p.start()
	waitFor(t, "the program to be ready", func() bool {
		status, _ := p.ready()
		return status == http.StatusOK
	})
	return p
}

func newProgram(t *testing.T, env ...string) *program {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // no program outlives its test
	t.Cleanup(cancel)
	p := &program{t: t, cmd: exec.CommandContext(ctx, os.Args[0]), log: new(lockedBuffer)}
	p.cmd.Env = append(env, asProgram+"=1")
	p.cmd.Stderr = p.log
	p.url, p.admin = p.inherit("SERVER_LISTENER"), p.inherit("ADMIN_LISTENER")
	return p
}

// inherit passes an open listener to the program and returns its URL.
func (p *program) inherit(variable string) (url string) {
	p.t.Helper()
	l := loopback(p.t)
	defer shut(l)
	file, err := l.(*net.TCPListener).File()
	if err != nil {
		p.t.Fatal(err)
	}
	p.cmd.Env = append(p.cmd.Env, variable+"="+strconv.Itoa(3+len(p.cmd.ExtraFiles)))
	p.cmd.ExtraFiles = append(p.cmd.ExtraFiles, file)
	return "http://" + l.Addr().String()
}

func (p *program) start() {
	p.t.Helper()
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	for _, file := range p.cmd.ExtraFiles {
		shut(file)
	}
	p.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
}

// ready calls /readyz. The status is 0 if there is no response.
func (p *program) ready() (status int, body string) {
	req, _ := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.admin+"/readyz", nil)
	status, body, _ = fetch(http.DefaultClient, req)
	return status, body
}

func (p *program) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// exits waits for the process and requires the exit code.
func (p *program) exits(want int) {
	p.t.Helper()
	_ = p.cmd.Wait()
	if got := p.cmd.ProcessState.ExitCode(); got != want {
		p.t.Errorf("exit code %d, want %d; the log:\n%s", got, want, p.log)
	}
}

// logs requires a log line with the message and the level.
func (p *program) logs(level, msg string) map[string]any {
	p.t.Helper()
	for _, line := range parseLog(p.t, p.log.String()) {
		if line["msg"] == msg && line["level"] == level {
			return line
		}
	}
	p.t.Errorf("the log lacks %q at level %s:\n%s", msg, level, p.log)
	return nil
}

func TestMainDrainsOnSIGTERM(t *testing.T) {
	t.Parallel()
	p := launch(t, "DRAIN_DELAY=10ms", "FUNCTION_NAME=hello", "FUNCTION_NAMESPACE=default", "FUNCTION_REVISION=abc")
	get(t, p.url+"/")
	p.signal(syscall.SIGTERM)
	p.exits(0)
	line := p.logs("info", "drained")
	if line["faas.name"] != "hello" || line["faas.version"] != "abc" || line["service.namespace"] != "default" {
		t.Errorf("the line does not have the function's labels: %v", line)
	}
	p.logs("info", "request")
}

func TestMainSkipsDelayOnSIGINT(t *testing.T) {
	t.Parallel()
	p := launch(t, "DRAIN_DELAY=1h")
	p.signal(syscall.SIGINT)
	p.exits(0)
}

func TestMainEndsOnSecondSignal(t *testing.T) {
	t.Parallel()
	p := launch(t, "DRAIN_DELAY=1h")
	p.signal(syscall.SIGTERM)
	waitFor(t, "the drain", func() bool { return strings.Contains(p.log.String(), `"msg":"draining"`) })
	p.signal(syscall.SIGTERM)
	p.exits(1)
	p.logs("warn", "second signal, ending at once")
}

func TestMainCutsOff(t *testing.T) {
	t.Parallel()
	p := launch(t, "DRAIN_DELAY=0s", "DRAIN_TIMEOUT=10ms")
	resp, err := http.Get(p.url + "/hang")
	if err != nil {
		t.Fatal(err)
	}
	defer shut(resp.Body)
	p.signal(syscall.SIGTERM)
	p.exits(1)
	p.logs("error", "serving failed")
}

func TestMainBadEnvironment(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "DRAIN_DELAY=soon")
	p.start()
	p.exits(2)
	line := p.logs("error", "invalid environment")
	if err, _ := line["error"].(string); !strings.Contains(err, `DRAIN_DELAY is "soon"`) {
		t.Errorf("the line does not name the variable: %v", line)
	}
}

func TestMainPortInUse(t *testing.T) {
	t.Parallel()
	taken := loopback(t)
	defer shut(taken)
	p := newProgram(t)
	p.cmd.Env = append(p.cmd.Env, "SERVER_LISTENER=", "SERVER_PORT="+strconv.Itoa(taken.Addr().(*net.TCPAddr).Port))
	p.start()
	p.exits(1)
	line := p.logs("error", "serving failed")
	if err, _ := line["error"].(string); !strings.Contains(err, "SERVER_PORT") || !strings.Contains(err, "in use") {
		t.Errorf("the line does not contain the address that is in use: %v", line)
	}
}

// The standard logger writes lines with level and time, one JSON object each.
func TestMainStandardLog(t *testing.T) {
	t.Parallel()
	p := launch(t, "FUNCTION_NAME=hello")
	get(t, p.url+"/print")
	p.signal(syscall.SIGINT)
	p.exits(0) // the whole log has arrived
	line := p.logs("info", "printed\nin two lines")
	if line["time"] == nil {
		t.Errorf("the line has no time: %v", line)
	}
	line = p.logs("warn", "structured")
	if order, _ := line["order"].(map[string]any); line["n"] != 1.0 || line["took"] != 1.5 || order["id"] != "66" {
		t.Errorf("attributes are missing: %v", line)
	}
	if line["request_id"] == nil || line["trace_id"] == nil || line["faas.name"] != "hello" {
		t.Errorf("the request's IDs or the labels are missing: %v", line)
	}
	line = p.logs("info", "doubled")
	if line["attr.level"] != "gold" || line["attr.request_id"] != "mine" || line["request_id"] == "mine" {
		t.Errorf("attributes replace keys of the line: %v", line)
	}
	line = p.logs("error", "grouped")
	order, _ := line["order"].(map[string]any)
	if line["request_id"] == nil || line["trace_id"] == nil || line["n"] != 1.0 || order["id"] != "66" || order["total"] != 7.0 {
		t.Errorf("the request's IDs are not at the same level as the attributes and the group: %v", line)
	}
	if line["stacktrace"] != nil {
		t.Errorf("unexpected stack: %v", line)
	}
}

// A line that is logged just before user code ends the process is not lost.
func TestMainLogSurvivesTheProcess(t *testing.T) {
	for path, code := range map[string]int{"/exit": 3, "/goroutine": 2} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			p := launch(t)
			for range 10 {
				get(t, p.url+"/")
			}
			waitFor(t, "the lines of all requests", func() bool { return p.requests() == 10 })
			p.getNothing(path)
			p.exits(code)
			if got := p.requests(); got != 10 {
				t.Errorf("%d requests are logged, want 10", got)
			}
		})
	}
}

// No line is lost when a log line ends the process.
func TestMainFatalIsTheLastLine(t *testing.T) {
	t.Parallel()
	p := launch(t)
	for range 10 {
		get(t, p.url+"/")
	}
	p.getNothing("/fatal")
	p.exits(1)
	lines := parseLog(t, p.log.String())
	if got, last := p.requests(), lines[len(lines)-1]["msg"]; got != 10 || last != "no database" {
		t.Errorf("%d requests are logged and the last line is %q, want 10 and the exit of the process", got, last)
	}
}

// requests returns the number of requests in the log.
func (p *program) requests() int { return strings.Count(p.log.String(), `"msg":"request"`) }

// getNothing calls a path whose handler ends the process.
func (p *program) getNothing(path string) {
	p.t.Helper()
	req, _ := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.url+path, nil)
	if status, _, err := fetch(http.DefaultClient, req); err == nil {
		p.t.Errorf("got a response with status %d", status)
	}
}

// The user's metrics are served with ours, without duplicates and conflicts. The names are the
// same in both formats.
func TestMainMetrics(t *testing.T) {
	t.Parallel()
	p := launch(t, "FUNCTION_NAME=hello", "FUNCTION_NAMESPACE=default", "FUNCTION_REVISION=abc", "GOLESS_VERSION=v1.2.3")
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+"/", nil)
	req.Header.Set("Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	do(t, http.DefaultClient, req)
	plain, open := p.scrape("text/plain"), p.scrape("application/openmetrics-text;version=1.0.0")
	info := `goless_build_info{function="hello",go_version="` + goruntime.Version() + `",namespace="default",revision="abc",version="v1.2.3"}`
	for _, line := range []string{"orders_total 1", "visits 1", "goless_panics_total 0", "total_invocations 1", info + " 1"} {
		for format, body := range map[string]string{"plain": plain, "OpenMetrics": strings.ReplaceAll(open, ".0\n", "\n")} {
			if strings.Count(body, "\n"+line+"\n") != 1 {
				t.Errorf("%s does not contain the line %q exactly once:\n%s", format, line, body)
			}
		}
	}
	for _, name := range []string{"go_goroutines", "process_start_time_seconds"} {
		if strings.Count(plain, "\n"+name+" ") != 1 {
			t.Errorf("/metrics does not contain %s exactly once", name)
		}
	}
	if exemplar := `# {trace_id="4bf92f3577b34da6a3ce929d0e0e4736"}`; strings.Count(open, exemplar) != 1 {
		t.Errorf("the sampled trace is not an exemplar:\n%s", open)
	}
	p.signal(syscall.SIGINT)
	p.exits(0) // the whole log has arrived
	for _, line := range parseLog(t, p.log.String()) {
		if msg, _ := line["msg"].(string); strings.Contains(msg, "go_") || strings.Contains(msg, "process_") {
			t.Errorf("the scrape logs a problem with metrics that are not the user's: %s", msg)
		}
	}
	if !strings.Contains(p.log.String(), "goless_panics_total") {
		t.Error("the conflict in the user's metrics is not in the log")
	}
}

// scrape returns the metrics in a format.
func (p *program) scrape(accept string) string {
	p.t.Helper()
	req, _ := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.admin+"/metrics", nil)
	req.Header.Set("Accept", accept)
	status, body := do(p.t, http.DefaultClient, req)
	if status != http.StatusOK {
		p.t.Fatalf("/metrics returned %d:\n%s", status, body)
	}
	return body
}

// Our metrics are served even if a collector of the user panics.
func TestMainMetricsBesideAPanic(t *testing.T) {
	t.Parallel()
	p := launch(t, panickingGauge+"=1")
	status, body := get(t, p.admin+"/metrics")
	if status != http.StatusOK || !strings.Contains(body, "\ntotal_invocations 0\n") {
		t.Errorf("/metrics returned %d:\n%s", status, body)
	}
	p.signal(syscall.SIGINT)
	p.exits(0) // the whole log has arrived
	if !strings.Contains(p.log.String(), "panicked: no stock") {
		t.Errorf("the panic is not in the log:\n%s", p.log)
	}
}

// Our metrics are served even if a collector of the user hangs, in every scrape.
func TestMainMetricsBesideAHang(t *testing.T) {
	t.Parallel()
	p := launch(t, hangingGauge+"=1")
	var scrapes sync.WaitGroup
	for range 4 { // as many as there may be at a time
		scrapes.Go(func() {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, p.admin+"/metrics", nil)
			began := time.Now()
			status, body, err := fetch(http.DefaultClient, req)
			for status == http.StatusServiceUnavailable && time.Since(began) >= 10*time.Second { // the machine stalled
				began = time.Now()
				status, body, err = fetch(http.DefaultClient, req)
			}
			if err != nil || status != http.StatusOK || !strings.Contains(body, "\ntotal_invocations 0\n") {
				t.Errorf("/metrics returned %d, %v:\n%s", status, err, body)
			}
		})
	}
	scrapes.Wait()
	if body := p.scrape("text/plain"); !strings.Contains(body, "\ntotal_invocations 0\n") {
		t.Errorf("our metrics are not served in a later scrape:\n%s", body)
	}
	p.signal(syscall.SIGINT)
	p.exits(0) // the whole log has arrived
	if !strings.Contains(p.log.String(), "collectors did not return within 5s") {
		t.Errorf("the reason is not in the log:\n%s", p.log)
	}
}

// The last line of log.Fatal is written at any level.
func TestMainFatal(t *testing.T) {
	for _, level := range []string{"debug", "info", "warn", "error"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			p := launch(t, "LOG_LEVEL="+level)
			p.getNothing("/fatal")
			p.exits(1)
			want := level
			if level == "debug" {
				want = "info"
			}
			p.logs(want, "no database")
		})
	}
}

// withBlockedLog starts a program whose standard error is a full pipe that is not read.
func withBlockedLog(t *testing.T, env ...string) *program {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(r); shut(w) })
	if err := w.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write(make([]byte, 1<<20)) // as much as fits
	p := newProgram(t, env...)
	p.cmd.Stderr = w
	p.start()
	// On a slow machine, /readyz already reports that the log is blocked.
	waitFor(t, "the start", func() bool { status, body := p.ready(); return status != 0 && body != "starting\n" })
	return p
}

// A log that is not read does not block requests. Its lines are dropped and counted, and the
// function becomes not ready. The process exits as usual.
func TestMainServesWithABlockedLog(t *testing.T) {
	t.Parallel()
	p := withBlockedLog(t, "DRAIN_DELAY=0s", "REQUEST_CONCURRENCY=10")
	path := p.url + "/" + strings.Repeat("x", 1000) // each line is longer than 1 KiB
	for range 2000 {
		if status, _ := get(t, path); status != http.StatusOK {
			t.Fatalf("got status %d", status)
		}
	}
	if status, _ := get(t, p.url+"/print"); status != http.StatusOK {
		t.Errorf("a handler that logs returned %d", status)
	}
	dropped := slices.DeleteFunc(strings.Split(p.scrape("text/plain"), "\n"), func(line string) bool {
		return !strings.HasPrefix(line, `goless_log_lines_dropped_total{reason="blocked"} `)
	})
	if len(dropped) != 1 || strings.HasSuffix(dropped[0], " 0") {
		t.Errorf("the metric of dropped lines is %q", dropped)
	}
	waitFor(t, "readiness to go", func() bool {
		status, body := p.ready()
		return status == http.StatusServiceUnavailable && strings.HasPrefix(body, "not ready: no log line could be written for 5s")
	})
	if status, _ := get(t, p.admin+"/healthz"); status != http.StatusOK {
		t.Errorf("/healthz returned %d", status)
	}
	p.signal(syscall.SIGTERM)
	p.exits(0)
}

// The process exits at most shortly after the drain timeout, whatever hangs.
func TestMainEndsWhateverHangs(t *testing.T) {
	t.Parallel()
	p := withBlockedLog(t, "DRAIN_DELAY=0s", "DRAIN_TIMEOUT=10ms", hooks+"=stop hangs")
	resp, err := http.Get(p.url + "/hang")
	if err != nil {
		t.Fatal(err)
	}
	defer shut(resp.Body)
	p.signal(syscall.SIGTERM)
	p.exits(1)
}

// A second signal ends the process immediately, even if the log is blocked.
func TestMainEndsWithABlockedLog(t *testing.T) {
	t.Parallel()
	p := withBlockedLog(t, "DRAIN_DELAY=1h")
	p.signal(syscall.SIGTERM)
	waitFor(t, "the drain", func() bool {
		resp, err := http.Get(p.url)
		if err != nil {
			t.Fatal(err)
		}
		defer shut(resp.Body)
		return resp.Close
	})
	p.signal(syscall.SIGTERM)
	p.exits(1)
}
