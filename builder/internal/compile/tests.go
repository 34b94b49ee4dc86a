package compile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"goless.io/builder/handler"
	"goless.io/builder/internal/diagnose"
	"goless.io/builder/internal/sandbox"
	"goless.io/builder/internal/testrunner"
	"goless.io/builder/internal/toolchain"
)

// TestsFingerprint identifies how TestPackages and BuildTests compile tests, in addition to
// Fingerprint.
func TestsFingerprint() string {
	return fmt.Sprintf("packages %s, %s, %s", selection, strings.Join(testCommand, " "), testrunner.Fingerprint())
}

// BuildTests compiles the tests of packages to a static binary that runs them; see package
// testrunner. It executes no tests. Options.Vet has no effect. The error is that of Build.
func BuildTests(ctx context.Context, t *toolchain.Toolchain, b Options, packages []TestPackage) (*Result, error) {
	work, err := newWorkspace()
	if err != nil {
		return nil, err
	}
	defer work.remove()
	ctx, cancel := withTimeout(ctx, b)
	defer cancel()
	b.tests = true
	command, err := newCommand(t, b, work)
	if err != nil {
		return nil, err
	}
	started := time.Now()
	tests := &testBuild{Options: b, tools: t, work: work, command: command}
	built, err := tests.compileAll(ctx, packages)
	if err != nil {
		return nil, err
	}
	if err := testrunner.Write(b.Output, built); err != nil {
		return nil, fmt.Errorf("writing the binary: %w", err)
	}
	return &Result{Duration: time.Since(started), PeakMemory: tests.peak}, nil
}

// A testBuild compiles tests with several go commands.
type testBuild struct {
	Options
	tools   *toolchain.Toolchain
	work    workspace
	command sandbox.Command // without arguments
	spent   cpuTime
	peak    int64 // peak memory of the commands, in bytes
	size    int64 // of the binaries, in bytes
}

// compileAll compiles the tests and the runner. If several packages do not compile, the error is
// about all of them. If the build cannot continue, the error is about those that are known not to
// compile.
func (b *testBuild) compileAll(ctx context.Context, packages []TestPackage) (built testrunner.Program, err error) {
	built.Module, built.Files = b.Program.Path, b.Program.Source.Files
	var mistakes handler.Error
	for i, p := range packages {
		name := strconv.Itoa(i) + ".test"
		c := b.command
		c.Args = goArgs(b.tools, b.Options, testCommand, filepath.Join(b.work.build, name), p.ImportPath)
		binary, err := b.compile(ctx, c, name, p.File)
		if found, ok := errors.AsType[*handler.Error](err); ok {
			mistakes.Diagnostics = append(mistakes.Diagnostics, found.Diagnostics...)
			mistakes.Omitted += found.Omitted
		} else if err != nil && len(mistakes.Diagnostics) > 0 && !errors.Is(ctx.Err(), context.Canceled) {
			break // such as a limit
		} else if err != nil {
			return built, err
		}
		built.Packages = append(built.Packages, testrunner.Package{Dir: p.Dir, Binary: binary})
	}
	if len(mistakes.Diagnostics) > 0 {
		all := diagnose.NewError(mistakes.Diagnostics)
		all.Omitted += mistakes.Omitted
		return built, all
	}
	built.Runner, err = b.compileRunner(ctx)
	return built, err
}

// compileRunner compiles the program that runs the tests, which is a module of its own.
func (b *testBuild) compileRunner(ctx context.Context) (binary string, err error) {
	const name = "runner"
	dir := filepath.Join(b.work.dir, "runner-source")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", fmt.Errorf("writing the test runner: %w", err)
	}
	if err := testrunner.WriteSource(dir); err != nil {
		return "", err
	}
	c := b.command
	c.Dir = dir
	c.Policy.Read = append([]string{dir}, c.Policy.Read...)
	c.Args = goArgs(b.tools, b.Options, buildCommand, filepath.Join(b.work.build, name), ".")
	return b.compile(ctx, c, name, "")
}

// compile runs a go command that writes a file with this name to work.build. Errors without a
// position are reported at the start of testFile, unless that is empty. compile moves the file to
// where no other command can change it, removes everything else that the command wrote, and returns
// the new path.
func (b *testBuild) compile(ctx context.Context, c sandbox.Command, name, testFile string) (binary string, err error) {
	r, err := runGo(ctx, b.Options, c, &b.spent)
	if err != nil {
		return "", errors.Join(explain(ctx, b.tools, b.Options, r, err, &b.spent, testFile), b.clean())
	}
	b.peak = max(b.peak, r.PeakMemory())
	binary = filepath.Join(b.work.dir, name)
	if err := sandbox.CopyResult(b.work.build, name, binary, 0o600); err != nil {
		return "", fmt.Errorf("copying the binary: %w", err)
	}
	info, err := os.Stat(binary)
	if err != nil {
		return "", err
	}
	if b.size += info.Size(); b.size > cmp.Or(b.maxTests, testrunner.MaxSize) {
		return "", testrunner.ErrTooLarge
	}
	return binary, b.clean()
}

// clean removes what a command wrote to work.build.
func (b *testBuild) clean() error {
	if err := sandbox.RemoveAll(b.work.build); err != nil {
		return fmt.Errorf("removing temporary files of the compiler: %w", err)
	}
	if err := os.Mkdir(b.work.build, 0o700); err != nil {
		return fmt.Errorf("creating a directory for the compiler: %w", err)
	}
	return nil
}
