package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"goless.io/builder"
	"goless.io/builder/hostile"
)

const (
	// podMemory is the memory of the build container, in bytes.
	podMemory = 768 << 20

	// killed is the exit code in os/exec of a process that a signal terminated.
	killed = -1

	// evidence is a file that some of the sources try to write.
	evidence = "/tmp/goless-hostile"
)

// TestImageHostile builds all sources of package hostile as a pod does. A build must leave no files
// or processes.
func TestImageHostile(t *testing.T) {
	if testing.Short() {
		t.Skip("the sources that only a limit ends take a minute")
	}
	cases, err := hostile.Cases()
	if err != nil {
		t.Fatal(err)
	}
	i := newImage(t)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) { i.testHostile(t, c) })
	}
}

func (i *image) testHostile(t *testing.T, c hostile.Case) {
	in := newCgroup(t, podMemory)
	if c.Reason == string(builder.BuildOutOfMemory) && in == nil {
		t.Skip("without a memory cgroup, it would take all the memory of this machine; test/e2e builds it in the build service")
	}
	timeout := time.Minute
	if c.Reason == string(builder.BuildTimeout) {
		timeout = 5 * time.Second
	}
	code, stderr := i.build(t, string(c.Source), in, "--timeout", timeout.String())
	if code == killed && c.Reason == string(builder.BuildOutOfMemory) {
		// The compiler was killed, and the builder needed memory before that of the compiler was
		// released. In a pod, the kubelet reports the reason OOMKilled.
		t.Log("the kernel has killed the builder together with the compiler")
		in.awaitEmpty(t)
		i.empty(t)
		return
	}
	report := i.readReport(t)
	if !c.Matches(string(report.Reason), first(report)) || code != c.ExitCode && report.Reason == builder.Reason(c.Reason) {
		t.Errorf("exit code %d, %s, %q, want %d, %s, %q\n%s", code, report.Reason, first(report), c.ExitCode, c.Reason, c.Says, tail(stderr))
	}
	in.awaitEmpty(t)
	i.checkNothingLeft(t, code == 0)
}

// checkNothingLeft reports files that a build must not leave, and removes the others.
func (i *image) checkNothingLeft(t *testing.T, built bool) {
	t.Helper()
	if _, err := os.Stat(evidence); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s was written, or: %v", evidence, err)
		_ = os.Remove(evidence)
	}
	if left := names(t, i.path("tmp")); len(left) > 0 && !slices.Equal(left, []string{"goimports"}) {
		t.Errorf("temporary files are left: %q", left) // goimports is an empty directory of a library
	}
	left := slices.DeleteFunc(names(t, i.path("function")), func(name string) bool {
		return name == "report" || built && name == "server"
	})
	if len(left) > 0 {
		t.Errorf("beside the binary are left: %q", left)
	}
	i.empty(t)
}

// empty removes all files from the directories that builds can write to.
func (i *image) empty(t *testing.T) {
	t.Helper()
	for _, dir := range []string{"tmp", "function"} {
		for _, name := range names(t, i.path(dir)) {
			if err := os.RemoveAll(filepath.Join(i.path(dir), name)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func (i *image) readReport(t *testing.T) builder.Report {
	t.Helper()
	data, err := os.ReadFile(i.path("function/report"))
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > 4096 {
		t.Errorf("the report has %d bytes, Kubernetes keeps 4096", len(data))
	}
	var report builder.Report
	if err := json.Unmarshal(data, &report); err != nil {
		t.Fatal(err)
	}
	return report
}

// first returns the first diagnostic of a report, or its message.
func first(report builder.Report) string {
	if len(report.Diagnostics) > 0 {
		return report.Diagnostics[0].String()
	}
	return report.Message
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// tail returns the end of a text.
func tail(text string) string { return text[max(0, len(text)-2000):] }
