package hostile_test

import (
	"errors"
	"strings"
	"testing"

	"goless.io/builder/handler"
	"goless.io/builder/hostile"
)

// TestVerdictsOfParse is about the sources that are not even to be compiled.
// Those that are have their verdicts from the builder in its image.
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
