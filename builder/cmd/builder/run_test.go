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
	"goless.io/builder/internal/input"
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

// A port that the cluster would refuse is told as what is wrong with the Function, and not as
// one on which nobody can listen.
func TestPortOf(t *testing.T) {
	for field, want := range map[string]int{"serverPort: 9000": 9000, "serverPort: 70000": defaultPort, "service: web": defaultPort} {
		yaml := "apiVersion: goless.io/v1beta1\nkind: Function\nmetadata: {name: f}\nspec: {function: p, " + field + "}\n"
		functions, _, err := input.Read(input.Stdin, strings.NewReader(yaml))
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

// The delay doubles from 1 to 30 seconds, and begins again after a minute without an end.
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

// What is found is told by place.
func TestAddSorts(t *testing.T) {
	var d diagnostics
	d.add(nil, format.Error, []handler.Diagnostic{{File: "a.go", Line: 5, Column: 30}, {File: "a.go", Line: 5, Column: 14}})
	if d.all[0].Column != 14 {
		t.Errorf("got %v", d.all)
	}
}
