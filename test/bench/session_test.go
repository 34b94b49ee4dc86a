package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func testSession() *session {
	return &session{n: 2, progress: &progress{out: io.Discard}}
}

// table returns the printed results, without alignment.
func table(t *testing.T, r results) []string {
	t.Helper()
	var out strings.Builder
	if err := r.write(&out, filepath.Join(t.TempDir(), "bench.json")); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines[1:]
}

// A failed step affects only the rows that it could not measure.
func TestStepsFailAlone(t *testing.T) {
	s := testSession()
	for _, row := range []string{"good", "bad.part.median", "bad.rest", "other"} {
		s.results.add(row, 7, "s", 1) // of an earlier run
	}
	s.step(t.Context(), "good", []string{"good"}, func(context.Context) error {
		s.results.add("good", 1, "s", 2)
		return nil
	})
	s.step(t.Context(), "bad", []string{"bad.part", "bad.rest"}, func(context.Context) error {
		s.results.add("bad.rest", 2, "s", 2)
		return errors.New("no luck\nat all")
	})
	s.step(t.Context(), "after", []string{"after"}, func(context.Context) error {
		s.results.add("after", 3, "s", 2)
		return nil
	})
	want := []string{"after 3 s - - 2", "bad.part failed - - - - no luck", "bad.rest 2 s - - 2", "good 1 s - - 2", "other 7 s - - 1"}
	if diff := cmp.Diff(want, table(t, s.results)); diff != "" {
		t.Errorf("the table (-want +got):\n%s", diff)
	}
	if err := errors.Join(s.failures...); err == nil || !strings.Contains(err.Error(), "bad: no luck\nat all") {
		t.Errorf("the failures are %v", err)
	}
	s.step(t.Context(), "bad", []string{"bad.part"}, func(context.Context) error {
		s.results.compare("bad.part", []float64{4}, nil, "s")
		return nil
	})
	want = []string{"after 3 s - - 2", "bad.part.median 4 s - - 1", "bad.part.p90 4 s - - 1", "bad.rest 2 s - - 2", "good 1 s - - 2", "other 7 s - - 1"}
	if diff := cmp.Diff(want, table(t, s.results)); diff != "" {
		t.Errorf("the table after the next run (-want +got):\n%s", diff)
	}
}

// A subject that fails among several is omitted, and so is one whose preparation failed.
func TestTurnsGoOn(t *testing.T) {
	s := testSession()
	tries := 0
	good := func(context.Context) (float64, error) { return 1, nil }
	samples := s.measure(t.Context(), map[string]func(context.Context) (float64, error){
		"good":  unless(nil, good),
		"bad":   func(context.Context) (float64, error) { tries++; return 2, errors.New("no luck") },
		"never": unless(errors.New("no tools"), good),
	})
	if diff := cmp.Diff(map[string][]float64{"good": {1, 1}}, samples); diff != "" || tries != 1 {
		t.Errorf("got %d attempts, the samples are (-want +got):\n%s", tries, diff)
	}
	if diff := cmp.Diff([]string{"bad failed - - - - no luck", "never failed - - - - no tools"}, table(t, s.results)); diff != "" {
		t.Errorf("the table (-want +got):\n%s", diff)
	}
}

// A kind of samples that fails affects only its own rows, and is not retried. Kinds that use it
// as baseline have none.
func TestKindsFailAlone(t *testing.T) {
	s := testSession()
	b := &bench{session: s, samples: map[string][]float64{}, failed: map[string]error{}, results: &s.results}
	tries := 0
	for range 2 {
		b.attempt("deploy.plain", func() error {
			tries++
			b.record("deploy.plain", 1)
			return errors.New("no luck")
		})
		b.attempt("deploy.inpod", func() error { return b.recorded("deploy.inpod", 2e9, nil) })
		b.attempt("compile", func() error {
			b.record("compile.wall", 3)
			return errors.New("no log")
		})
	}
	b.compare()
	want := []string{"compile failed - - - - no log", "deploy.inpod.median 2 s - - 2", "deploy.inpod.p90 2 s - - 2", "deploy.plain failed - - - - no luck"}
	if diff := cmp.Diff(want, table(t, s.results)); diff != "" || tries != 1 {
		t.Errorf("got %d attempts, the table is (-want +got):\n%s", tries, diff)
	}
	if len(s.failures) != 2 {
		t.Errorf("the failures are %v", s.failures)
	}
}

// The file contains the reason, and figures have none.
func TestResultsFile(t *testing.T) {
	var r results
	r.add("good", 1, "s", 2)
	r.fail("bad", errors.New("no luck\nat all"))
	file := filepath.Join(t.TempDir(), "bench.json")
	if err := r.write(new(strings.Builder), file); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rows []map[string]any
	if err := json.Unmarshal(text, &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 2 || rows[0]["error"] != "no luck\nat all" || rows[1]["error"] != nil {
		t.Errorf("unexpected contents of the file: %s", text)
	}
}

// A terminal shows one line that is updated; a file gets separate lines.
func TestProgress(t *testing.T) {
	for terminal, want := range map[bool]string{
		true:  "\r\x1b[K[0s] build \r\x1b[K[0s] build 1 of 2\r\x1b[K[0s] build 2 of 2\r\x1b[K",
		false: "[0s] build \n[0s] load \n",
	} {
		var out strings.Builder
		p := &progress{out: &out, terminal: terminal, began: time.Now()}
		p.begin("build")
		p.say("1 of 2")
		p.say("2 of 2")
		if !terminal {
			p.begin("load")
		}
		p.end()
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("on a terminal: %v (-want +got):\n%s", terminal, diff)
		}
	}
}
