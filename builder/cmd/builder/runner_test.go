package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"goless.io/builder/handler"
	"goless.io/builder/internal/format"
	"goless.io/builder/internal/input"
	"goless.io/builder/internal/serve"
)

// Who waits for input that does not come ends when asked to.
func TestRunEndsBeforeTheInput(t *testing.T) {
	in, _ := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var said bytes.Buffer
	code := run(ctx, streams{in: in, err: &said, ended: ctx.Done()}, nil, []string{"validate", "-"})
	if want := "builder: reading -: context canceled\n"; code != 2 || said.String() != want {
		t.Errorf("run: %d, %q, want %q", code, &said, want)
	}
}

// A port that cannot be had while this runs is not forgotten in silence.
func TestAnnounceTellsOfAnotherPort(t *testing.T) {
	function := &input.Function{Name: "hello", Serving: input.Serving{Port: 81}}
	for _, fixed := range []bool{false, true} {
		var said bytes.Buffer
		r := &runner{diagnostics: diagnostics{streams: streams{err: &said}}, config: serve.Config{Port: 80}, serving: function, fixed: fixed}
		r.announce(false, time.Second)
		if told := strings.HasPrefix(said.String(), "hello: spec.serverPort is 81 now"); told == fixed {
			t.Errorf("with a port by flag %t: %s", fixed, &said)
		}
	}
}

// What is found is told by place.
func TestAddSorts(t *testing.T) {
	var d diagnostics
	d.add(nil, format.Error, []handler.Diagnostic{{File: "a.go", Line: 5, Column: 30}, {File: "a.go", Line: 5, Column: 14}})
	if d.all[0].Column != 14 {
		t.Errorf("got %v", d.all)
	}
}

// Nothing is said of a file that is empty for the moment in which it is saved.
func TestReloadWaitsForTheRest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hello.yaml")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	server, err := serve.Listen(serve.Config{Host: "localhost"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close() //nolint:errcheck // nothing runs
	var said bytes.Buffer
	r := &runner{diagnostics: diagnostics{streams: streams{err: &said}, notation: "text"}, path: path, server: server, unsettled: time.Hour}

	changed, change := context.WithCancel(t.Context())
	change()
	for _, r.unsettled = range []time.Duration{time.Hour, 0} {
		r.reload(changed)
		if said.Len() > 0 {
			t.Errorf("before the next change: %s", &said)
		}
	}
	r.reload(t.Context())
	if want := "builder: " + path + " holds no Function of goless.io\nbuilder: waiting for the next save\n"; said.String() != want {
		t.Errorf("got %q, want %q", &said, want)
	}
}
