package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The builder deploys a function and its next version, calls both, reports a compile error
// while the previous version keeps serving, and prints the logs.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	cli := &commandLine{ns: ns, builder: buildBuilder(t), file: filepath.Join(t.TempDir(), "hello.yaml")}
	cli.write("one")
	if out := cli.run(0, "deploy", cli.file); !strings.Contains(out, "hello: serving at http://hello."+ns.name+".svc:8080") {
		t.Errorf("unexpected output of deploy: %s", out)
	}
	cli.says("one")
	cli.write("two")
	cli.run(0, "deploy", cli.file)
	cli.says("two")
	cli.write(`" + nothing + "`)
	out := cli.run(1, "deploy", cli.file)
	for _, want := range []string{"hello.yaml:12:26: undefined: nothing", "hello: the previous version continues to serve"} {
		if !strings.Contains(out, want) {
			t.Errorf("deploy with a compile error printed %s, want %s", out, want)
		}
	}
	cli.says("two")
	ns.eventually("the log contains the request", func() error {
		if out := cli.run(0, "logs", "hello"); !strings.Contains(out, `"http.request.method":"GET"`) {
			return fmt.Errorf("it is %s", out)
		}
		return nil
	})
}

// A sleeping function counts as ready when it is deployed, and invoke wakes it.
func TestCommandLineWakes(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("hello", answering("awake"), sleeping)))
	ns.asleep(fn)
	cli := &commandLine{ns: ns, builder: buildBuilder(t)}
	cli.says("awake")
}

// commandLine is the builder in the namespace of a test.
type commandLine struct {
	ns            *namespace
	builder, file string
}

func buildBuilder(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "builder")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./cmd/builder")
	cmd.Dir, cmd.Env = filepath.Join("..", "..", "builder"), append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("compiling the builder: %v\n%s", err, out)
	}
	return path
}

// write writes the YAML of a Function that responds with text.
func (c *commandLine) write(text string) {
	c.ns.t.Helper()
	const head = "apiVersion: goless.io/v1beta1\nkind: Function\nmetadata:\n  name: hello\nspec:\n  function: |\n    "
	source := strings.ReplaceAll(strings.TrimSpace(fmt.Sprintf("package handlers\n\nimport \"net/http\"\n\nfunc Handler(w http.ResponseWriter, r *http.Request) {\n\tw.Write([]byte(\"%s\"))\n}", text)), "\n", "\n    ")
	if err := os.WriteFile(c.file, []byte(head+source+"\n"), 0o644); err != nil {
		c.ns.t.Fatal(err)
	}
}

// run calls the builder, requires an exit code, and returns all output.
func (c *commandLine) run(code int, command string, args ...string) string {
	c.ns.t.Helper()
	ctx, cancel := context.WithTimeout(c.ns.t.Context(), patience)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, c.builder, append([]string{command, "--namespace", c.ns.name}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == code || err == nil && code == 0 {
		return out.String()
	}
	c.ns.t.Fatalf("builder %s %s: %v, want exit code %d: %s", command, strings.Join(args, " "), err, code, out.String())
	return ""
}

// says calls the function until it responds with text. The API server may briefly forward to a
// terminating pod.
func (c *commandLine) says(text string) {
	c.ns.t.Helper()
	c.ns.eventually("the function responds with "+text, func() error {
		if out := c.run(0, "invoke", "hello"); !strings.Contains(out, text) {
			return fmt.Errorf("it answers %s", out)
		}
		return nil
	})
}
