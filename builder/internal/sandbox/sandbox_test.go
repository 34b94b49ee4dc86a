package sandbox

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

// runProbe runs the test binary as a probe with policy. The probe attempts to access the file mine
// in the directory writable, the file secret, which no rule names, and an address on this machine.
func runProbe(t *testing.T, policy Policy, mine, secret, address string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	policy.Read = append(policy.Read, filepath.Dir(self))
	for _, dir := range []string{"/lib", "/lib64", "/usr/lib"} { // with cgo, a test binary is linked dynamically
		if exists(dir) {
			policy.Read = append(policy.Read, dir)
		}
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Args = policy.args(self, probeName, mine, secret, address)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the probe failed: %v\n%s", err, out)
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
	// What the kernel cannot forbid is possible.
	files, network := !ConfinesFiles(), LandlockVersion() < 4
	if files || network {
		t.Log("the kernel has no Landlock, or one that does not know of networks: what it can is tested")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() //nolint:errcheck // the test is over
	port := listener.Addr().(*net.TCPAddr).AddrPort().Port()
	write := []string{filepath.Dir(mine)}
	cases := map[string]struct {
		policy         Policy
		files, network bool
	}{
		"Confined":  {Policy{Write: write}, files, network},
		"Port":      {Policy{Write: write, Ports: []uint16{port}}, files, true},
		"OtherPort": {Policy{Write: write, Ports: []uint16{443}}, files, network},
		"Readable":  {Policy{Write: write, Files: []string{mine}}, files, network},
		"Open":      {Policy{Open: true}, true, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			want := strings.Join([]string{
				fmt.Sprint("read ", mine, " true"),
				fmt.Sprint("write ", mine, " true"),
				fmt.Sprint("read ", secret, " ", c.files),
				fmt.Sprint("write ", secret, " ", c.files),
				fmt.Sprint("connect ", c.network),
				"large file false\n",
			}, "\n")
			if diff := cmp.Diff(want, runProbe(t, c.policy, mine, secret, listener.Addr().String())); diff != "" {
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
	cmd.Args = Policy{Open: true}.args("/nonexistent/go", "build")
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "/nonexistent/go: no such file") {
		t.Errorf("the sandbox ended with %v and said %q", err, out)
	}
}

// TestOutputIsLimited runs a command that writes more than a Result keeps. This does not affect the
// command.
func TestOutputIsLimited(t *testing.T) {
	r, err := Run(t.Context(), Command{
		Policy: Policy{Open: true},
		Args:   []string{"/bin/sh", "-c", "head -c 3M /dev/zero; head -c 3M /dev/zero >&2"},
	})
	if err != nil || r.Stdout.Len() != maxOutput || r.Stderr.Len() != maxOutput {
		t.Errorf("it ended with %v and the result keeps %d and %d bytes, want %d of each", err, r.Stdout.Len(), r.Stderr.Len(), maxOutput)
	}
}

// TestNoCoreDumps makes a command print its limit of core dumps.
func TestNoCoreDumps(t *testing.T) {
	r, err := Run(t.Context(), Command{Policy: Policy{Open: true}, Args: []string{"/bin/sh", "-c", "ulimit -c; ulimit -H -c"}})
	if err != nil || r.Stdout.String() != "0\n0\n" {
		t.Errorf("it ended with %v, and the limits are %q, want 0", err, &r.Stdout)
	}
}
