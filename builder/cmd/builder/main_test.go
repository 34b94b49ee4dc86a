package main

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"goless.io/builder/internal/buildtest"
	"goless.io/builder/internal/compile"
)

var update = flag.Bool("update", false, "write what the commands print into the scripts")

func TestMain(m *testing.M) {
	compile.EnterSandbox()
	testscript.Main(m, map[string]func(){"builder": main, "kubectl-goless": main})
}

// TestScripts runs the command as users do. It uses the local go command with the caches of the
// user who runs the tests, and a module proxy with the modules that the sources and the runtime
// require.
func TestScripts(t *testing.T) {
	modules, err := buildtest.Modules()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "env", "-json", "GOCACHE", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	var env map[string]string
	if err := json.Unmarshal(out, &env); err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Abs("../../../examples")
	if err != nil {
		t.Fatal(err)
	}
	env["EXAMPLES"] = examples
	env["GOPROXY"], env["GOSUMDB"] = "file://"+filepath.ToSlash(modules), "off"
	fetchRuntimeModules(t, env["GOPROXY"])
	if signal.Ignored(syscall.SIGHUP) { // nohup is meant for the tests, but not for their child processes
		caught := make(chan os.Signal, 1)
		signal.Notify(caught, syscall.SIGHUP)
		t.Cleanup(func() { signal.Stop(caught) }) // after the last script, which is later than the end of this function
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       *update,
		Cmds:                commands,
		Setup: func(e *testscript.Env) error {
			for name, value := range env {
				e.Setenv(name, value)
			}
			return nil
		},
	})
}

// fetchRuntimeModules fetches the modules of the runtime into the module cache, so that the output
// of no script contains downloads.
func fetchRuntimeModules(t *testing.T, proxy string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download")
	cmd.Dir = filepath.FromSlash("../../../runtime")
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOSUMDB=off", "GOPROXY="+proxy)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go mod download: %v\n%s", err, out)
	}
}
