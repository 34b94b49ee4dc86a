package main

import (
	"bufio"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

func TestLaunch(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	script := filepath.Join(dir, "script")
	broken := filepath.Join(dir, "broken")
	write(t, plain, "no program", 0o644)
	write(t, script, "#!/bin/sh\necho \"$$ $1 $GREETING $GOLESS_VERSION\"\nexit 7\n", 0o755)
	write(t, broken, "no program", 0o755)

	tests := map[string]struct {
		args []string
		code int
		want string
	}{
		"Default":       {nil, 127, "launch: /function/server does not exist"},
		"Missing":       {[]string{filepath.Join(dir, "none")}, 127, "none does not exist: the build"},
		"NotExecutable": {[]string{plain}, 126, "plain is not an executable file"},
		"NoProgram":     {[]string{broken}, 126, "exec format error"},
		"Arguments":     {[]string{script, "argument"}, 7, " argument hello devel\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], test.args...)
			cmd.Env = append(os.Environ(), asLaunch+"=1", "GREETING=hello")
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != test.code || !strings.Contains(string(out), test.want) {
				t.Errorf("got %v: %q, want exit code %d and %q", err, out, test.code, test.want)
			}
			if name == "Arguments" && !strings.HasPrefix(string(out), pid(cmd)) {
				t.Errorf("the program runs as another process than %s: %q", pid(cmd), out)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	cmd := exec.Command(os.Args[0], "--version")
	cmd.Env = append(os.Environ(), asLaunch+"=1")
	out, err := cmd.CombinedOutput()
	if want := "launch devel (commit unknown, " + runtime.Version() + ")\n"; err != nil || string(out) != want {
		t.Errorf("got %v: %q, want %q", err, out, want)
	}
}

// A connection that is opened before the program serves is not refused.
func TestLaunchOpensThePorts(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	write(t, script, "#!/bin/sh\necho $SERVER_LISTENER $ADMIN_LISTENER; cat\n", 0o755)
	port := freePort(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], script)
	cmd.Env = append(os.Environ(), asLaunch+"=1", "SERVER_PORT="+port, "ADMIN_PORT=no port",
		"SERVER_LISTENER=99", "ADMIN_LISTENER=99") // overwritten by launch
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	// A single number: ports that could not be opened are left to the program.
	if fd, err := strconv.Atoi(strings.TrimSpace(line)); err != nil || fd == 99 {
		t.Errorf("unexpected listeners of the program: %q", line)
	}
	connection, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Errorf("the port is not open while the program starts: %v", err)
	} else if err := connection.Close(); err != nil {
		t.Error(err)
	}
	if err := errors.Join(stdin.Close(), cmd.Wait()); err != nil {
		t.Error(err)
	}
}

// The image is small, so that nodes pull it quickly.
func TestSize(t *testing.T) {
	launch, err := build(t.TempDir(), ".")
	if err != nil {
		t.Fatal(err)
	}
	if len(launch) > 6_000_000 {
		t.Errorf("the size of launch is %d bytes, want at most 6 MB", len(launch))
	}
}

func pid(cmd *exec.Cmd) string { return strconv.Itoa(cmd.Process.Pid) + " " }

func write(t testing.TB, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}
