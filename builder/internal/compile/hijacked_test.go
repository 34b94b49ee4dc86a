//go:build unix

package compile

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"goless.io/builder/internal/buildtest"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/toolchain"
)

// hijacked returns a toolchain whose go command and vet perform an attack; see testdata/hijacked.
func hijacked(t *testing.T, tool []byte, attack string) *toolchain.Toolchain {
	t.Helper()
	tools := buildtest.Machine(t)
	tools.Root, tools.Cache, tools.Modules = t.TempDir(), t.TempDir(), t.TempDir()
	for _, path := range []string{tools.Command(), tools.Tool("vet")} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, tool, 0o755); err != nil { //nolint:gosec // it is executed
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), "attack"), []byte(attack), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return tools
}

func compileHijacked(t *testing.T) []byte {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "hijacked")
	cmd := exec.CommandContext(t.Context(), buildtest.Machine(t).Command(), "build", "-o", binary, "./testdata/hijacked")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	tool, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

// TestHijacked uses tools that create something else than regular files. A build must not copy the
// target of a link and must not wait for a FIFO, both with the sandbox of the image and without
// one, as on a kernel without Landlock.
func TestHijacked(t *testing.T) {
	tool := compileHijacked(t)
	secret := filepath.Join(t.TempDir(), "b001", "importcfg.link")
	if err := errors.Join(os.MkdirAll(filepath.Dir(secret), 0o700), os.WriteFile(secret, []byte("{\"secret\":{}}"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, attack := range []string{"none", "output symlink", "output fifo", "output directory", "config symlink", "config fifo", "build symlink", "findings symlink", "findings fifo"} {
		for _, sealed := range []bool{true, false} {
			t.Run(attack+map[bool]string{true: " confined"}[sealed], func(t *testing.T) {
				tools := hijacked(t, tool, attack+" "+secret)
				tools.Sealed = sealed
				output := filepath.Join(t.TempDir(), "server")
				ctx, cancel := context.WithTimeout(t.Context(), buildtest.Timeout)
				defer cancel()
				b := Options{Program: buildtest.Write(t, buildtest.Hello), Output: output, Timeout: time.Minute, Vet: true, vetTimeout: time.Minute}
				result, err := Build(ctx, tools, b)
				where, _, _ := strings.Cut(attack, " ")
				built := where == "none" || where == "findings"
				vetted := where == "none"
				if (err == nil) != built || err == nil && (result.VetError == nil) != vetted {
					t.Fatalf("Build: %+v, %v, want a binary: %t, findings: %t", result, err, built, vetted)
				}
				checkOutput(t, output, built)
			})
		}
	}
}

// checkOutput checks whether a build has written a binary.
func checkOutput(t *testing.T, output string, built bool) {
	t.Helper()
	binary, err := os.ReadFile(output)
	if string(binary) == "binary" != built || !built && err == nil {
		t.Errorf("the output is %q (%v), want a binary: %t", binary, err, built)
	}
	if info, err := os.Lstat(output); built && (err != nil || !info.Mode().IsRegular()) {
		t.Errorf("the output is not a regular file: %v, %v", info, err)
	}
}

// TestBusy checks a build that times out without having had a processor, as on a machine with many
// other builds. This is not the author's fault.
func TestBusy(t *testing.T) {
	tools := hijacked(t, compileHijacked(t), "build sleep none")
	b := Options{Program: buildtest.Write(t, buildtest.Hello), Output: filepath.Join(t.TempDir(), "server"), Timeout: 5 * time.Second}
	if _, err := Build(t.Context(), tools, b); !errors.Is(err, ErrBusy) || errors.Is(err, ErrTimeout) {
		t.Errorf("Build: %v, want ErrBusy", err)
	}
	for _, c := range []struct {
		spent cpuTime
		want  bool
	}{{cpuTime{sum: 29 * time.Second}, true}, {cpuTime{sum: 30 * time.Second}, false}, {cpuTime{sum: time.Second, unknown: true}, false}} {
		if got := c.spent.isBelow(30 * time.Second); got != c.want {
			t.Errorf("%+v is below 30s: %t, want %t", c.spent, got, c.want)
		}
	}
}

// TestKeptPackages covers what a hijacked go command could create instead of the directories for
// dependencies while it fetches modules. The compiler must not be allowed to write there.
func TestKeptPackages(t *testing.T) {
	tools := hijacked(t, compileHijacked(t), "none none none")
	for name, leave := range map[string]func(p *program.Program, elsewhere string) error{
		"Dependencies": func(p *program.Program, elsewhere string) error {
			return os.Symlink(elsewhere, toolchain.KeptDependencies(p))
		},
		"Packages": func(p *program.Program, elsewhere string) error {
			kept := toolchain.KeptDependencies(p)
			return errors.Join(os.Mkdir(kept, 0o700), os.Symlink(elsewhere, toolchain.PackageCache(kept)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := buildtest.Write(t, buildtest.Hello)
			if err := leave(p, t.TempDir()); err != nil {
				t.Fatal(err)
			}
			b := Options{Program: p, Output: filepath.Join(t.TempDir(), "server"), Timeout: time.Minute, KeepPackages: true}
			if _, err := Build(t.Context(), tools, b); err == nil || !strings.Contains(err.Error(), "creating a build cache") {
				t.Errorf("Build: %v, want that there is no build cache", err)
			}
		})
	}
}
