package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"goless.io/builder"
	"goless.io/builder/internal/format"
	"goless.io/builder/internal/gotool"
	"goless.io/builder/internal/input"
)

const buildExample = `  # writes the program hello-world
  builder build hello-world.yaml

  # and serves it
  builder build --output-binary /tmp/server handler.go && SERVER_PORT=8080 /tmp/server

  # what the init container of a function does
  builder build --output-binary /function/server --report /dev/termination-log /source/handler.go`

func newBuild(s streams, environ []string) *cobra.Command {
	b := &build{diagnostics: diagnostics{streams: s}, environ: environ}
	cmd := &cobra.Command{
		Use:   "build FILE",
		Short: "Compile Functions into static binaries",
		Long: `Compile Functions into static binaries.

The compiler is the one of the image, or else the go command in PATH. What go vet
finds is printed as a warning.

The exit code is 0 when all was built, 1 when a source is at fault and 2 when
something else went wrong. With --report it is 0, 10 for a compile error, 11 for
a timeout, 12 when memory ran out, 13 for a source that is not a Function, 14
when the program is too large, and 20 when the builder is at fault.`,
		Example:           buildExample,
		Args:              arguments,
		ValidArgsFunction: completeFiles,
		RunE:              func(cmd *cobra.Command, args []string) error { return b.run(cmd.Context(), args[0]) },
	}
	b.addFlag(cmd)
	cmd.Flags().StringVar(&b.binary, "output-binary", "", "write the binary to `file`, or into it if it is a directory (default the name of the Function)")
	cmd.Flags().StringVar(&b.report, "report", "", "write how the build ended to `file` as JSON, and repeat it as long as nothing changes")
	cmd.Flags().DurationVar(&b.timeout, "timeout", 0, "stop the compiler after this time (default 1m in an image with a build cache, and 5m elsewhere)")
	cmd.Flags().BoolVarP(&b.trace, "print-commands", "x", false, "print the commands that the go command executes")
	return cmd
}

type build struct {
	diagnostics
	environ        []string
	binary, report string
	timeout        time.Duration
	trace          bool
}

func (b *build) run(ctx context.Context, path string) error {
	if b.timeout < 0 {
		return fmt.Errorf("--timeout %s is negative, see: builder build --help", b.timeout)
	}
	functions, err := b.functions(path)
	if err != nil {
		found, omitted, _ := blamed(err)
		b.add(nil, format.Error, found)
		b.omitted += omitted
		return b.end(newRecord(nil, "", 0, err))
	}
	var worst record
	for _, function := range functions {
		r := b.function(ctx, function)
		b.add(function, format.Error, r.Report.Diagnostics)
		b.add(function, format.Warning, r.Report.Warnings)
		b.omitted += r.Report.Omitted
		if r.ExitCode >= worst.ExitCode {
			worst = r
		}
	}
	return b.end(worst)
}

// functions returns the Functions of the input, of which there must be only one
// when there is only one place for what they become.
func (b *build) functions(path string) ([]*input.Function, error) {
	functions, notes, err := b.input(path)
	for _, note := range notes {
		b.notef("%s", note)
	}
	if err == nil && len(functions) > 1 && (b.binary != "" || b.report != "") {
		err = fmt.Errorf("%s holds %d Functions, --output-binary and --report are for one", path, len(functions))
	}
	return functions, err
}

// function builds one Function, unless it is known how that ends.
func (b *build) function(ctx context.Context, function *input.Function) record {
	started := time.Now()
	binary, err := b.output(function)
	if err != nil {
		return newRecord(nil, "", time.Since(started), err)
	}
	toolchain, err := gotool.Find(ctx, b.environ)
	if err != nil {
		return newRecord(nil, "", time.Since(started), err)
	}
	maker := &builder.Builder{Toolchain: toolchain, Timeout: b.timeout}
	if b.trace {
		maker.Trace = b.err
	}
	key := recordKey(maker, function.Source)
	if r, ok := recall(binary, key); ok && b.report != "" {
		b.notef("%s: nothing has changed since the last build", function.Name)
		return r
	}
	for _, note := range toolchain.Notes() {
		b.notef("%s", note)
	}
	result, err := maker.Build(ctx, function.Source, binary)
	r := newRecord(maker, key, time.Since(started), err)
	if err == nil {
		r.Report.Warnings = result.Warnings
		b.resultf("%s: built %s in %s, the compiler took %d MiB", function.Name, cmp.Or(b.binary, binary), r.Report.Duration, result.PeakMemory>>20)
	}
	if b.report != "" {
		if err := r.remember(binary); err != nil {
			b.notef("builder: the next build cannot profit from this one: %v", err)
		}
	}
	return r
}

// output returns the absolute path of the binary, which is in a directory that
// has its name, and which can be written.
func (b *build) output(function *input.Function) (string, error) {
	name := filepath.Base(function.Name)
	path := cmp.Or(b.binary, name)
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, name)
	}
	if err := writable(path); err != nil {
		return "", fmt.Errorf("%s cannot be written: %w", path, err)
	}
	return filepath.Abs(path)
}

// writable tries to write beside path, before a compiler has worked in vain.
func writable(path string) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".builder-")
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	if err != nil {
		return err
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

// end tells how the build ended: the diagnostics, or the message where there are
// none, the report, and the exit code.
func (b *build) end(r record) error {
	printed := b.print()
	if r.Report.Reason != builder.Built && len(r.Report.Diagnostics) == 0 {
		b.notef("builder: %s", r.Report.Message)
	}
	switch {
	case b.report != "":
		return b.writeReport(r)
	case r.ExitCode == exitBuilder:
		return exitUsage
	case r.ExitCode != 0:
		return exitSource
	}
	return printed
}

func (b *build) writeReport(r record) error {
	data, err := r.Report.Marshal()
	if err == nil {
		err = os.WriteFile(b.report, data, 0o644)
	}
	if err != nil {
		b.notef("builder: writing the report: %v", err)
		return exit(exitBuilder)
	}
	return exit(r.ExitCode)
}
