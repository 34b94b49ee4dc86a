package modules

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"goless.io/builder/handler"
	"goless.io/builder/internal/buildtest"
	"goless.io/builder/internal/compile"
	"goless.io/builder/internal/diagnose"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/toolchain"
)

// freshMachine returns the toolchain of a machine without downloaded modules.
func freshMachine(t *testing.T, proxy string) *toolchain.Toolchain {
	t.Helper()
	tools := buildtest.Machine(t)
	tools.Modules = t.TempDir()
	tools.Network = []string{"GOPROXY=" + proxy, "GOSUMDB=off", "GOFLAGS=-modcacherw"}
	return tools
}

// TestFetchRuntimeReports runs without network and without modules.
func TestFetchRuntimeReports(t *testing.T) {
	const advice = "; every function needs this module, which is not on this machine yet; check the network and go env GOPROXY"
	for proxy, want := range map[string]string{
		"http://127.0.0.1:1": `fetching modules failed: cannot fetch github.com/prometheus/client_golang@v1.25.0: Get "http://127.0.0.1:1/github.com/prometheus/client_golang/@v/v1.25.0.zip": dial tcp 127.0.0.1:1: connect: connection refused` + advice,
		"off":                "fetching modules failed: cannot fetch github.com/prometheus/client_golang/prometheus: module lookup disabled by GOPROXY=off" + advice,
	} {
		for name, source := range map[string]string{"File": buildtest.Hello, "Module": buildtest.Site} {
			t.Run(name+" "+proxy, func(t *testing.T) {
				err := Fetch(t.Context(), freshMachine(t, proxy), FetchOptions{Program: buildtest.Write(t, source), Timeout: buildtest.Timeout})
				if _, ok := errors.AsType[*handler.Error](err); ok || !errors.Is(err, diagnose.ErrFetch) || err.Error() != want {
					t.Errorf("Fetch: %v, want %s", err, want)
				}
			})
		}
	}
}

// TestFetchRuntime builds without network after the modules of the runtime were fetched.
func TestFetchRuntime(t *testing.T) {
	tools := freshMachine(t, serveModules(t).URL)
	unknown := strings.Replace(buildtest.Site, "\"example.com/site/pages\"", "\"example.com/site/pages\"\n\t_ \"example.com/unknown\"", 1)
	wrong, err := program.Write(t.TempDir(), handler.Inspect(handler.Split(handler.Filename, []byte(unknown))))
	if err == nil {
		err = Fetch(t.Context(), tools, FetchOptions{Program: wrong, Timeout: buildtest.Timeout})
	}
	if err != nil {
		t.Errorf("Fetch of a source with an unknown import: %v, which the compiler reports", err)
	}
	tools.Modules = t.TempDir()
	p := buildtest.Write(t, buildtest.Hello)
	var progress bytes.Buffer
	options := FetchOptions{Program: p, Timeout: buildtest.Timeout, Progress: &progress}
	if err := Fetch(t.Context(), tools, options); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"fetching the modules of the runtime", "\ndownloading github.com/prometheus/client_golang v1.25.0\n", "\ndownloading github.com/beorn7/perks v1.0.1\n"} {
		if !strings.Contains(progress.String(), want) {
			t.Errorf("the progress lacks %q: %s", want, &progress)
		}
	}
	tools.Network = []string{"GOPROXY=off"}
	progress.Reset()
	if err := Fetch(t.Context(), tools, options); err != nil || progress.Len() > 0 {
		t.Errorf("Fetch again: %v, %s", err, &progress)
	}
	if _, err := compile.Build(t.Context(), tools, compile.Options{Program: p, Output: filepath.Join(t.TempDir(), "server"), Timeout: buildtest.Timeout}); err != nil {
		t.Errorf("Build: %v", err)
	}
}
