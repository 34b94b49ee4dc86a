package gotool

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Tools are the commands of a toolchain that a build executes, the go command
// aside.
var Tools = []string{"asm", "compile", "link"}

// CompileTools compiles the go command and the Tools for arch, from the source of
// t itself, into the GOROOT root. Temporary files go below work.
func (t *Toolchain) CompileTools(ctx context.Context, arch, root, work string) error {
	compiler := *t
	compiler.Arch, compiler.Cache = arch, filepath.Join(work, "cache")
	for dir, tools := range map[string][]string{
		filepath.Join(root, "bin"):                        {"cmd/go"},
		filepath.Join(root, "pkg", "tool", "linux_"+arch): prefixed("cmd/", Tools),
	} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, t.command(), append([]string{"build", "-trimpath", "-ldflags=-s -w", "-o", dir + "/"}, tools...)...)
		cmd.Dir = filepath.Join(t.Root, "src")
		cmd.Env = compiler.environ(work, t.Modules, false)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("compiling %v for %s: %w: %s", tools, arch, err, out)
		}
	}
	return nil
}

func prefixed(prefix string, names []string) (all []string) {
	for _, name := range names {
		all = append(all, prefix+name)
	}
	return all
}
