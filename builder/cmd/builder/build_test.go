package main

import (
	"strings"
	"testing"
)

func TestMemoryNote(t *testing.T) {
	if note := memoryNote(768 << 20); note != "" {
		t.Errorf("the note on 768 MiB is %q, want none", note)
	}
	note := memoryNote(900 << 20)
	for _, want := range []string{"900 MiB", "768 MiB", "spec.build.resources.limits.memory", "InPod"} {
		if !strings.Contains(note, want) {
			t.Errorf("the note on 900 MiB lacks %q: %s", want, note)
		}
	}
}
