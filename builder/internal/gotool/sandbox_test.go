package gotool

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// runProbe starts the test binary as a probe in box. The probe tries the file
// called mine in the directory writable, secret, which no rule names, and a
// listener on this machine.
func runProbe(t *testing.T, box sandbox, mine, secret string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() //nolint:errcheck // the test is over

	box.Read = append(box.Read, filepath.Dir(self))
	for _, dir := range []string{"/lib", "/lib64", "/usr/lib"} { // with cgo, a test binary is linked dynamically
		if isDir(dir) {
			box.Read = append(box.Read, dir)
		}
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Args = box.args(self, probeName, mine, secret, listener.Addr().String())
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the probe failed: %v\n%s", detailed(err), out)
	}
	return string(out)
}

func TestSandbox(t *testing.T) {
	mine, secret := filepath.Join(t.TempDir(), "mine"), filepath.Join(t.TempDir(), "secret")
	for _, file := range []string{mine, secret} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	confined := !Confines() // what is possible without Landlock is possible
	if !Confines() {
		t.Log("the kernel has no Landlock: only the limits are tested")
	}
	cases := map[string]struct {
		box     sandbox
		allowed bool
	}{
		"Confined": {sandbox{Write: []string{filepath.Dir(mine)}}, confined},
		"Open":     {sandbox{Open: true}, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			want := strings.Join([]string{
				fmt.Sprint("read ", mine, " true"),
				fmt.Sprint("write ", mine, " true"),
				fmt.Sprint("read ", secret, " ", c.allowed),
				fmt.Sprint("write ", secret, " ", c.allowed),
				fmt.Sprint("connect ", c.allowed),
				"large file false\n",
			}, "\n")
			if diff := cmp.Diff(want, runProbe(t, c.box, mine, secret)); diff != "" {
				t.Errorf("a command in the sandbox: -want +got\n%s", diff)
			}
		})
	}
}

func TestSandboxSaysWhatCannotBeExecuted(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Args = sandbox{Open: true}.args("/nonexistent/go", "build")
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "/nonexistent/go: no such file") {
		t.Errorf("the sandbox ended with %v and said %q", err, out)
	}
}
