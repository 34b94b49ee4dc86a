package toolchain

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// Tools are the names of the commands that a build executes in addition to the go command.
var Tools = []string{"asm", "compile", "link", "vet"}

// Executable returns the file name of an executable on this system.
func Executable(name string) string {
	if runtime.GOOS == "windows" {
		return name + ".exe"
	}
	return name
}

// Tool returns the path of one of the Tools.
func (t *Toolchain) Tool(name string) string {
	return filepath.Join(t.Root, "pkg", "tool", runtime.GOOS+"_"+runtime.GOARCH, Executable(name))
}

// CompileTools compiles the go command and the Tools for arch from the source in t. It writes them to
// goroot, which has the layout of a GOROOT, and puts temporary files into workDir.
func (t *Toolchain) CompileTools(ctx context.Context, arch, goroot, workDir string) error {
	compiler := *t
	compiler.Arch, compiler.Cache = arch, filepath.Join(workDir, "cache")
	for dir, tools := range map[string][]string{
		filepath.Join(goroot, "bin"):                        {"cmd/go"},
		filepath.Join(goroot, "pkg", "tool", "linux_"+arch): prefixed("cmd/", Tools),
	} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, t.Command(), append([]string{"build", "-trimpath", "-ldflags=-s -w", "-o", dir + "/"}, tools...)...)
		cmd.Dir = filepath.Join(t.Root, "src")
		cmd.Env = compiler.Environ(workDir, t.Modules, false)
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
