package hostile_test

import (
	"errors"
	"strings"
	"testing"

	"goless.io/builder/handler"
	"goless.io/builder/hostile"
	"goless.io/builder/internal/compile"
)

// TestMatches includes the outcomes of builds on busy machines.
func TestMatches(t *testing.T) {
	for _, c := range []struct {
		want         hostile.Case
		reason, says string
		matches      bool
	}{
		{hostile.Case{Reason: "BuildTimeout"}, "BuildTimeout", "the compiler took too long", true},
		{hostile.Case{Reason: "BuildTimeout"}, "BuildFailed", compile.ErrBusy.Error() + ": stopped", true},
		{hostile.Case{Reason: "BuildTimeout"}, "BuildFailed", "the disk is full", false},
		{hostile.Case{Reason: "CompileFailed"}, "BuildFailed", compile.ErrBusy.Error(), false},
		{hostile.Case{Reason: "CompileFailed", Says: "handler.go:8:1: "}, "CompileFailed", "handler.go:9:1: x", false},
	} {
		if got := c.want.Matches(c.reason, c.says); got != c.matches {
			t.Errorf("%s, %q matches %+v: %t, want %t", c.reason, c.says, c.want, got, c.matches)
		}
	}
}

// TestVerdictsOfParse checks the cases that Parse must reject. The outcomes of the other cases are
// checked with the builder in its image.
func TestVerdictsOfParse(t *testing.T) {
	cases, err := hostile.Cases()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, c := range cases {
		if names[c.Name] {
			t.Errorf("there are two cases called %s", c.Name)
		}
		names[c.Name] = true
		t.Run(c.Name, func(t *testing.T) {
			_, err := handler.Parse(handler.Filename, c.Source)
			if got, want := err == nil, c.Reason != "InvalidSource"; got != want {
				t.Fatalf("Parse: %v, want a source that is valid: %t", err, want)
			}
			if invalid, ok := errors.AsType[*handler.Error](err); ok && !strings.HasPrefix(invalid.Diagnostics[0].String(), c.Says) {
				t.Errorf("Parse: %v, want %s", err, c.Says)
			}
		})
	}
}
