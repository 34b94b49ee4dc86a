// Package builder compiles the source of a Function into a static binary: it validates the source,
// generates the program around it, fetches the required modules, and compiles. Init containers, the
// builder CLI and the build service all use it.
package builder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"goless.io/builder/handler"
	"goless.io/builder/internal/compile"
	"goless.io/builder/internal/depcache"
	"goless.io/builder/internal/modules"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/sandbox"
	"goless.io/builder/internal/toolchain"
)

const (
	// DefaultTimeout is sufficient for any reasonable source, even on a slow machine.
	DefaultTimeout = 60 * time.Second

	// SlowTimeout is the default where the standard library may have to be compiled first.
	SlowTimeout = 5 * time.Minute
)

// Builder builds Functions.
type Builder struct {
	// Toolchain compiles the program. Required.
	Toolchain *toolchain.Toolchain

	// Timeout limits the duration of a build, including fetching and compiling modules. Fetching
	// may take at most half of it. 0 means DefaultTimeout with the toolchain of the builder image,
	// and SlowTimeout with any other toolchain.
	Timeout time.Duration

	// Memory limits the memory that all processes of a build use together, in bytes. 0: no limit
	// except that of the container, which is right if the container does nothing else. Go vet may
	// use the same amount in addition, but at most 256 MiB.
	Memory int64

	// Dependencies caches modules that builds fetch and packages that they compile, for later builds
	// in the same Namespace. If it is nil, nothing is cached.
	Dependencies *depcache.Store
	Namespace    string

	// Tests compiles the tests of the source instead of the function. The binary runs the tests of
	// all packages; see the command in internal/testrunner/main for its environment variables and
	// exit codes. Tests are never executed during a build. If tests are missing or break the rules for
	// functions, the error is a *handler.Error.
	Tests bool

	// Trace receives the commands that a build executes. Optional.
	Trace io.Writer

	// Progress receives a line for each download while it is running. Optional.
	Progress io.Writer
}

// Result describes a built binary. Its Duration is that of the whole build, from source to binary.
// Its Warnings include requirements of go.mod whose version differs from the one in the program.
// Positions refer to the author's files.
type Result struct {
	compile.Result

	// CacheError is the error that prevented caching the dependencies of this build, or how they were
	// used, in Dependencies. It only makes the next build slower. It is nil on success.
	CacheError error
}

// Build compiles src, or its tests, and writes the binary to the absolute path output, whose directory must exist.
// An existing file is replaced only if the build succeeds.
//
// If the source does not compile or is not a Function, the error is a *handler.Error. Positions
// refer to the author's files. If src is not an archive, its only file is called handler.Filename.
// ReasonOf classifies the error: the source, the builder or a module server may be at fault, or ctx
// may have ended.
func (b *Builder) Build(ctx context.Context, src []byte, output string) (*Result, error) {
	started := time.Now()
	unfinished := output + ".unfinished"
	defer os.Remove(unfinished) //nolint:errcheck // it is gone when all went well
	var compiled *compile.Result
	var cacheErr error
	err := b.prepare(ctx, src, func(p *prepared) (err error) {
		options := compile.Options{
			Program: p.program,
			Output:  unfinished,
			Timeout: b.timeLeft(started),
			Memory:  b.Memory,
			Trace:   b.Trace,
			Vet:     true,

			KeepPackages: p.saveAs != "",
		}
		if b.Tests {
			compiled, err = compile.BuildTests(ctx, p.tools, options, p.tests)
		} else {
			compiled, err = compile.Build(ctx, p.tools, options)
		}
		if err != nil {
			return err
		}
		compiled.Warnings = append(compiled.Warnings, overridden(p.program)...)
		cacheErr = errors.Join(compiled.KeepError, b.saveDependencies(p))
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := os.Rename(unfinished, output); err != nil {
		return nil, fmt.Errorf("renaming the binary: %w", err)
	}
	slices.SortFunc(compiled.Warnings, handler.Diagnostic.Compare)
	compiled.Duration = time.Since(started)
	return &Result{Result: *compiled, CacheError: cacheErr}, nil
}

// WithProgram validates src, generates the program around it, fetches the modules that it requires,
// and calls use with the program, which is ready to be compiled, and its toolchain. It removes the
// program when use returns. It returns the error of use, or an error as Build does.
func (b *Builder) WithProgram(ctx context.Context, src []byte, use func(*toolchain.Toolchain, *program.Program) error) error {
	return b.prepare(ctx, src, func(p *prepared) error { return use(p.tools, p.program) })
}

// prepared is a program with everything that is needed to compile it.
type prepared struct {
	program *program.Program

	// tests are the packages with tests if the build compiles tests.
	tests []compile.TestPackage

	// tools is the toolchain of the Builder, with the cached dependencies of an earlier build if
	// available.
	tools *toolchain.Toolchain

	// saveAs is the key under which this build caches its dependencies. If it is empty, the build
	// does not cache them.
	saveAs string
}

// prepare performs all steps before compiling, and calls use.
func (b *Builder) prepare(ctx context.Context, src []byte, use func(*prepared) error) error {
	parsed, err := handler.Parse(handler.Filename, src)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "goless-program-")
	if err != nil {
		return fmt.Errorf("creating a directory for the program: %w", err)
	}
	defer sandbox.RemoveAll(dir) //nolint:errcheck // it is below the temporary directory
	written, err := program.Write(dir, parsed)
	if err != nil {
		return err
	}
	p := &prepared{program: written, tools: b.Toolchain}
	if b.Tests {
		if p.tests, err = compile.TestPackages(b.Toolchain, written); err != nil {
			return err
		}
	}
	release, err := b.useDependencies(ctx, p)
	if err != nil {
		return err
	}
	defer release()
	if p.tools.Dependencies == "" {
		options := modules.FetchOptions{Program: written, Timeout: b.MaxDuration() / 2, Memory: b.Memory, Trace: b.Trace, Progress: b.Progress}
		for _, pkg := range p.tests {
			options.Tests = append(options.Tests, pkg.ImportPath)
		}
		if err := modules.Fetch(ctx, b.Toolchain, options); err != nil {
			return err
		}
	}
	return use(p)
}

// timeLeft returns the remaining time of a build. The elapsed time is truncated to whole seconds
// for readable messages.
func (b *Builder) timeLeft(started time.Time) time.Duration {
	return b.MaxDuration() - time.Since(started).Truncate(time.Second)
}

// MaxDuration returns Timeout, or its default if it is 0.
func (b *Builder) MaxDuration() time.Duration {
	switch {
	case b.Timeout != 0:
		return b.Timeout
	case !b.Toolchain.Sealed: // the cache of a machine may not contain the standard library
		return SlowTimeout
	}
	return DefaultTimeout
}

// Fingerprint identifies everything that determines how a source is compiled, except limits. Builds
// of equal sources with equal fingerprints have the same outcome.
func (b *Builder) Fingerprint() string {
	fingerprint := b.Toolchain.Version + " " + compile.Fingerprint() + " " + program.Fingerprint()
	if b.Tests {
		fingerprint += " tests " + compile.TestsFingerprint()
	}
	return fingerprint
}
