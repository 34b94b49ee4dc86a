package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"goless.io/builder/handler"
	"goless.io/builder/internal/format"
	"goless.io/builder/internal/manifest"
	"goless.io/builder/internal/source"
)

// TestRunEndsBeforeTheInput checks that a command that waits for input ends when it is canceled.
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

// TestPortOf checks that an invalid port is not used: it is reported as an error of the Function,
// not as a failure to listen.
func TestPortOf(t *testing.T) {
	for field, want := range map[string]int{"serverPort: 9000": 9000, "serverPort: 70000": defaultPort, "service: web": defaultPort} {
		yaml := "apiVersion: goless.io/v1beta1\nkind: Function\nmetadata: {name: f}\nspec: {function: p, " + field + "}\n"
		functions, _, err := manifest.Read(source.Stdin, strings.NewReader(yaml))
		if err != nil {
			t.Fatal(err)
		}
		if got := portOf(functions[0]); got != want {
			t.Errorf("%s: it is served on %d, want %d", field, got, want)
		}
	}
	if got := portOf(nil); got != defaultPort {
		t.Errorf("without a Function: %d, want %d", got, defaultPort)
	}
}

// TestBackoff checks that the delay doubles from 1 to 30 seconds and is reset after more than a
// minute without a restart.
func TestBackoff(t *testing.T) {
	b := backoff{began: time.Now()}
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		if got := b.next(b.began.Add(time.Minute)); got != want*time.Second {
			t.Errorf("got %s, want %ds", got, want)
		}
	}
	if got := b.next(b.began.Add(time.Minute + 1)); got != time.Second {
		t.Errorf("after a minute: %s, want 1s", got)
	}
}

// TestAddSorts checks that diagnostics are sorted by position.
func TestAddSorts(t *testing.T) {
	var d diagnostics
	d.add(nil, format.Error, []handler.Diagnostic{{File: "a.go", Line: 5, Column: 30}, {File: "a.go", Line: 5, Column: 14}})
	if d.all[0].Column != 14 {
		t.Errorf("got %v", d.all)
	}
}
