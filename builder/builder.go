// Package builder turns the source of a Function into a static binary: it verifies
// it, writes the program around it, fetches what that requires, and compiles. It does
// not depend on who asks for that and where the source comes from: a container that
// builds, a person at a terminal and a service that builds for many do the same.
package builder

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"goless.io/builder/handler"
	"goless.io/builder/internal/compile"
	"goless.io/builder/internal/dependencies"
	"goless.io/builder/internal/modules"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/sandbox"
	"goless.io/builder/internal/toolchain"
)

const (
	// DefaultTimeout is the time in which any reasonable source compiles, on a
	// slow machine too.
	DefaultTimeout = 60 * time.Second

	// SlowTimeout takes its place where the standard library has to be compiled
	// first.
	SlowTimeout = 5 * time.Minute
)

// Builder builds Functions.
type Builder struct {
	// Toolchain compiles. It is required.
	Toolchain *toolchain.Toolchain

	// Timeout is the longest time that a build may take, modules fetched and
	// compiled, at most half of it for fetching. 0 means DefaultTimeout, or
	// SlowTimeout where the toolchain is not that of an image.
	Timeout time.Duration

	// Memory bounds what the processes of a build use together, in bytes. 0 leaves
	// it to the container, which is right as long as it has nothing else to do. Go vet
	// may take as much beside it, and at most 256 MiB.
	Memory int64

	// Dependencies keeps what builds fetch and compile beside their author's packages, for
	// later builds of the same Namespace. If it is nil, each build begins anew.
	Dependencies *dependencies.Store
	Namespace    string

	// Trace receives the commands that are executed, unless it is nil.
	Trace io.Writer

	// Progress receives lines about what is downloaded, while that goes on. It is optional.
	Progress io.Writer
}

// Result describes a binary that was built. Its Duration is that of the whole build, from
// source to binary, and its Warnings also tell which requirements of the go.mod are not met as
// they are written. They are in the author's files.
type Result struct {
	compile.Result

	// Unkept is why Dependencies has not kept what this build has fetched and compiled,
	// which only makes the next one slower. It is nil if nothing went wrong.
	Unkept error
}

// Build compiles src and writes the binary to the file output, whose directory must
// exist, by its absolute path; what was there before is replaced once the build has
// succeeded. ReasonOf tells from the error whether the source is at fault, or the
// builder, or what it fetches modules from, or whether ctx has ended. If the source
// does not compile, or is no Function, the error is a *handler.Error. Places are in
// the author's files, which are handler.Filename alone unless src is an archive.
func (b *Builder) Build(ctx context.Context, src []byte, output string) (*Result, error) {
	started := time.Now()
	unfinished := output + ".unfinished"
	defer os.Remove(unfinished) //nolint:errcheck // it is gone when all went well
	var compiled *compile.Result
	var unkept error
	err := b.prepare(ctx, src, func(p *prepared) (err error) {
		compiled, err = compile.Build(ctx, p.tools, compile.Options{
			Program: p.program,
			Output:  unfinished,
			Timeout: b.timeLeft(started),
			Memory:  b.Memory,
			Trace:   b.Trace,
			Vet:     true,

			KeepPackages: p.saveAs != "",
		})
		if err != nil {
			return err
		}
		compiled.Warnings = append(compiled.Warnings, overridden(p.program)...)
		unkept = b.saveDependencies(p)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := os.Rename(unfinished, output); err != nil {
		return nil, fmt.Errorf("putting the binary in its place: %w", err)
	}
	slices.SortFunc(compiled.Warnings, handler.Diagnostic.Compare)
	compiled.Duration = time.Since(started)
	return &Result{Result: *compiled, Unkept: unkept}, nil
}

// WithProgram verifies src, writes the program around it, fetches the modules that it
// requires, and calls use with the program and the toolchain for it. What is left to do is to
// compile. The program is removed when use returns. The error is that of use, or else like
// that of Build.
func (b *Builder) WithProgram(ctx context.Context, src []byte, use func(*toolchain.Toolchain, *program.Program) error) error {
	return b.prepare(ctx, src, func(p *prepared) error { return use(p.tools, p.program) })
}

// A prepared program has all that it takes to compile it.
type prepared struct {
	program *program.Program

	// tools are the toolchain of the Builder, with the dependencies that an earlier build
	// has left if they were kept.
	tools *toolchain.Toolchain

	// saveAs is the key by which this build is to leave its dependencies for others. It is
	// empty if it is to leave nothing.
	saveAs string
}

// prepare does everything before compiling, and calls use.
func (b *Builder) prepare(ctx context.Context, src []byte, use func(*prepared) error) error {
	parsed, err := handler.Parse(handler.Filename, src)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "goless-program-")
	if err != nil {
		return fmt.Errorf("making a directory for the program: %w", err)
	}
	defer sandbox.RemoveAll(dir) //nolint:errcheck // it is below the temporary directory
	written, err := program.Write(dir, parsed)
	if err != nil {
		return err
	}
	p := &prepared{program: written, tools: b.Toolchain}
	release, err := b.useDependencies(ctx, p)
	if err != nil {
		return err
	}
	defer release()
	if p.tools.Dependencies == "" {
		options := modules.FetchOptions{Program: written, Timeout: b.MaxDuration() / 2, Memory: b.Memory, Trace: b.Trace, Progress: b.Progress}
		if err := modules.Fetch(ctx, b.Toolchain, options); err != nil {
			return err
		}
	}
	return use(p)
}

// timeLeft returns how much of the time of a build is left, in whole seconds for people.
func (b *Builder) timeLeft(started time.Time) time.Duration {
	return b.MaxDuration() - time.Since(started).Truncate(time.Second)
}

// MaxDuration returns the longest time that a build may take: Timeout, or what that means
// if it is 0.
func (b *Builder) MaxDuration() time.Duration {
	switch {
	case b.Timeout != 0:
		return b.Timeout
	case !b.Toolchain.Sealed: // nobody knows what is in the cache of a machine
		return SlowTimeout
	}
	return DefaultTimeout
}

// Fingerprint identifies everything that decides how a source becomes a binary.
// Equal sources have equal outcomes as long as it is the same, limits aside.
func (b *Builder) Fingerprint() string {
	return b.Toolchain.Version + " " + compile.Fingerprint() + " " + program.Fingerprint()
}
