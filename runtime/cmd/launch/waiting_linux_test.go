package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// impatient is the environment of a launcher that gives up immediately if the service responds,
// and answers probes immediately.
var impatient = []string{testAnswerTimeout + "=1ms", testProbeDelay + "=1ms"}

// During an outage of the build service, launch waits, reports the reason, and lets probes and
// requests wait. When the service is back, the program answers all of them.
func TestOutage(t *testing.T) {
	address := "127.0.0.1:" + freePort(t)
	l := prepare(t, "https://"+address, impatient...)
	l.start(t)
	early := l.connect(t)
	defer early.Close() //nolint:errcheck // it has been read
	if _, err := io.WriteString(early, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	reason := "waiting for the binary: cannot reach the build service: dial tcp " + address + ": connect: connection refused\n"
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503, "/metrics": 503} {
		l.until(t, path, func(code int, text string) bool { return code == want && text == reason })
	}
	serveAt(t, address, newKey(1), good)
	l.until(t, "/readyz", func(code int, text string) bool { return code == 200 && strings.Contains(text, "memfd:function") })
	if answer, err := io.ReadAll(early); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.0 200 OK") {
		t.Errorf("the early request got %v and %q", err, answer)
	}
}

// Temporary errors of the build service are retried.
func TestTrouble(t *testing.T) {
	for name, trouble := range map[string]answer{
		"Busy":      status(429, "busy"),
		"Broken":    status(500, "broken"),
		"Truncated": truncated,
		"Stalled":   stalled,
	} {
		t.Run(name, func(t *testing.T) {
			l := start(t, serve(t, trouble, trouble, trouble, good), append(impatient, testReadTimeout+"=1s")...)
			l.describe(t)
		})
	}
}

// While the program replaces the launcher, each probe is answered by one of them.
func TestHandOver(t *testing.T) {
	address := "127.0.0.1:" + freePort(t)
	l := prepare(t, "https://"+address, append(impatient, testProbeTimeout+"=1m")...)
	l.start(t)
	l.until(t, "/healthz", func(code int, _ string) bool { return code == 200 })
	for n := range 1_000_000 {
		code, text, err := l.probe("/healthz")
		switch {
		case err != nil || code != 200: // also after a minute
			t.Fatalf("probe %d got %d, %q, %v", n, code, text, err)
		case strings.Contains(text, "memfd:function"):
			return
		case n == 10:
			serveAt(t, address, newKey(1), good)
		}
	}
}

// The log of launch has the format of the program's log.
func TestJournal(t *testing.T) {
	l := prepare(t, serve(t, waiting).URL, "FUNCTION_NAME=f", "FUNCTION_NAMESPACE=team", "FUNCTION_REVISION=1")
	reader, writer := io.Pipe()
	l.Stderr = writer
	l.start(t)
	line, err := bufio.NewReader(reader).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, reader) }()
	var got map[string]string
	if err := json.Unmarshal(line, &got); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	if _, err := time.Parse(time.RFC3339Nano, got["time"]); err != nil {
		t.Error(err)
	}
	delete(got, "time")
	want := map[string]string{
		"level": "info", "msg": "waiting for the binary", "faas.name": "f", "faas.version": "1", "service.namespace": "team",
		"reason": "the build service has not answered yet, it may be compiling",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the line (-want +got):\n%s", diff)
	}
}

// probe sends a probe to the admin port, as the kubelet does.
func (l *launcher) probe(path string) (code int, text string, err error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://127.0.0.1:" + l.admin + path)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close() //nolint:errcheck // it has been read
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// until repeats a probe until its response satisfies holds.
func (l *launcher) until(t *testing.T, path string, holds func(code int, text string) bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		code, text, err := l.probe(path)
		if err == nil && holds(code, text) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("timed out after a minute: %s responds with %d, %q, %v", path, code, text, err)
		}
	}
}

// If a client has opened a connection to the admin port and sends nothing, and a signal arrives
// after the binary, the launcher exits: the program would not receive the signal.
func TestSignalAfterFetch(t *testing.T) {
	address := "127.0.0.1:" + freePort(t)
	l := prepare(t, "https://"+address, append(impatient, testProbeTimeout+"=1m")...)
	inProcessNamespace(l)
	l.start(t)
	l.until(t, "/healthz", func(code int, _ string) bool { return code == 200 })
	idle, err := net.Dial("tcp", "127.0.0.1:"+l.admin)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = idle.Close() }) // the other side has exited
	// A probe that is answered now was accepted after the idle connection.
	l.until(t, "/healthz", func(code int, _ string) bool { return code == 200 })
	serveAt(t, address, newKey(1), good)
	// When launch has the binary, it accepts no more connections.
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for err := error(nil); err == nil; {
		var response *http.Response
		if response, err = client.Get("http://127.0.0.1:" + l.admin); err == nil {
			_ = response.Body.Close() // only the fact that there is a response matters
		}
	}
	if err := l.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, message := l.end(t); code != 143 {
		t.Errorf("the launcher exited with %d and %q, want 143", code, message)
	}
}
