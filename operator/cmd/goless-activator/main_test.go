package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestWatched(t *testing.T) {
	for list, want := range map[string]string{
		"": "", "team-a": "team-a", "team-a,team-b": "team-a team-b", " team-a, team-b ": "team-a team-b",
		"team-a team-b": "error", "team-a,,team-b": "error", "team-a,": "error", "Team": "error", " ": "error",
	} {
		all, err := watched(list)
		got := strings.Join(slices.Sorted(maps.Keys(all)), " ")
		if err != nil {
			got = "error"
		}
		if got != want || list == "" && all != nil {
			t.Errorf("%q: got %q, %v, want %q", list, got, err, want)
		}
	}
}
