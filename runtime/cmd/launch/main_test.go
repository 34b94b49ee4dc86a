package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const asLaunch = "GOLESS_TEST_LAUNCH"

func TestMain(m *testing.M) {
	if os.Getenv(asLaunch) != "" {
		main()
	}
	os.Exit(m.Run())
}

func TestLaunch(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	script := filepath.Join(dir, "script")
	broken := filepath.Join(dir, "broken")
	write(t, plain, "no program", 0o644)
	write(t, script, "#!/bin/sh\necho \"$$ $1 $GREETING\"\nexit 7\n", 0o755)
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
		"Arguments":     {[]string{script, "argument"}, 7, " argument hello"},
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

func pid(cmd *exec.Cmd) string { return strconv.Itoa(cmd.Process.Pid) + " " }

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}
