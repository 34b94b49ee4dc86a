package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseNamespaces(t *testing.T) {
	for list, want := range map[string]string{
		"": "", "team-a": "team-a", "team-a,team-b": "team-a team-b", " team-a, team-b ": "team-a team-b",
		"team-a team-b": "error", "team-a,,team-b": "error", "team-a,": "error", "Team": "error", " ": "error",
	} {
		all, err := parseNamespaces(list)
		got := strings.Join(slices.Sorted(maps.Keys(all)), " ")
		if err != nil {
			got = "error"
		}
		if got != want || list == "" && all != nil {
			t.Errorf("%q: got %q, %v, want %q", list, got, err, want)
		}
	}
}

// An invalid file results in the default.
func TestSettle(t *testing.T) {
	const head = "apiVersion: config.goless.io/v1beta1\nkind: OperatorConfiguration\n"
	for text, want := range map[string]time.Duration{
		head: 15 * time.Second, head + "endpointPropagation: 40s\n": 40 * time.Second, head + "endpointPropagation: 1h\n": 15 * time.Second, "nonsense": 15 * time.Second,
	} {
		file := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := settle(file); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	if got := settle(""); got != 15*time.Second {
		t.Errorf("without a file: got %s", got)
	}
}
