package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"goless.io/builder"
	"goless.io/builder/internal/buildservice"
	"goless.io/builder/internal/format"
	"goless.io/builder/internal/manifest"
	"goless.io/builder/internal/toolchain"
)

const buildExample = `  # compile to the binary hello-world
  builder build hello-world.yaml

  # build and serve it
  builder build --output-binary /tmp/server handler.go && SERVER_PORT=8080 /tmp/server

  # compile the tests and run them as a cluster does
  builder build --tests --output-binary /tmp/tests . && FUNCTION_TEST_TIMEOUT=30s /tmp/tests

  # build as the init container of a function does
  builder build --output-binary /function/server --report /dev/termination-log /source/handler.go`

func newBuild(s streams, environ []string) *cobra.Command {
	b := &build{diagnostics: diagnostics{streams: s}, environ: environ}
	cmd := &cobra.Command{
		Use:   "build FILE",
		Short: "Compile Functions into static binaries",
		Long: `Compile Functions into static binaries.

In the builder image, the compiler of the image is used, and elsewhere the go
command in PATH. Findings of go vet are printed as warnings. Another warning is
printed if a process of the compiler used more memory than clusters allow by
default.

With --tests, the binary runs the tests of all packages. In its environment,
FUNCTION_TEST_TIMEOUT limits the duration of all tests together (default 1m),
and FUNCTION_TEST_REPORT names a file for a JSON report about failed tests. The
exit code of the binary is 0 if all tests pass, 1 if tests fail or time out, and
126 if they cannot be run.

The exit code of builder build is 0 on success; 1 for errors in a source, a
timeout, or an exceeded memory or size limit; and 2 for other errors. With
--report, it is 0 on success, 10 for a compile error, 11 for a timeout, 12 if
memory ran out, 13 if the source is not a Function or its tests are missing or
invalid, 14 if the program is too large, and 20 for other errors.`,
		Example:           buildExample,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeFiles,
		RunE:              func(cmd *cobra.Command, args []string) error { return b.run(cmd.Context(), args[0]) },
	}
	b.addFlag(cmd)
	cmd.Flags().StringVar(&b.binary, "output-binary", "", "write the binary to `file` or, if that is a directory or ends with /, into that directory (default: the name of the Function, with .bin appended if a directory has that name)")
	cmd.Flags().StringVar(&b.report, "report", "", "write the result of the build to `file` as JSON")
	cmd.Flags().DurationVar(&b.timeout, "timeout", 0, "stop the compiler after this time (default 1m in an image with a build cache, otherwise 5m)")
	cmd.Flags().BoolVar(&b.tests, "tests", false, "compile the _test.go files instead of the Function to a binary that runs all tests; see builder test to run them directly")
	cmd.Flags().BoolVarP(&b.trace, "print-commands", "x", false, "print the commands that the go command executes")
	return cmd
}

type build struct {
	diagnostics
	environ        []string
	binary, report string
	timeout        time.Duration
	tests, trace   bool
}

func (b *build) run(ctx context.Context, path string) error {
	if b.timeout < 0 {
		return fmt.Errorf("--timeout %s is negative; see builder build --help", b.timeout)
	}
	functions, err := b.functions(path)
	if err != nil {
		found, omitted, _ := diagnosticsOf(err)
		b.add(nil, format.Error, found)
		b.omitted += omitted
		o := newOutcome(nil, 0, err)
		b.explain("", o.report)
		return b.end(o)
	}
	var worst outcome
	for _, function := range functions {
		o := b.function(ctx, function)
		b.add(function, format.Error, o.report.Diagnostics)
		b.add(function, format.Warning, o.report.Warnings)
		b.omitted += o.report.Omitted
		var prefix string
		if len(functions) > 1 {
			prefix = function.Name + ": "
		}
		b.explain(prefix, o.report)
		if o.code >= worst.code {
			worst = o
		}
	}
	return b.end(worst)
}

// functions returns the Functions of the input. It returns an error if the outputs of several
// Functions would have the same path.
func (b *build) functions(path string) ([]*manifest.Function, error) {
	functions, notes, err := b.input(path)
	for _, note := range notes {
		b.notef("%s", note)
	}
	switch {
	case err != nil || len(functions) == 1:
		return functions, err
	case b.report != "":
		return nil, fmt.Errorf("%s contains %d Functions; --report supports only one", path, len(functions))
	case b.binary != "" && !isDirectory(b.binary):
		return nil, fmt.Errorf("%s contains %d Functions, so --output-binary must be a directory; use %s%c", path, len(functions), b.binary, filepath.Separator)
	}
	names := map[string]bool{}
	for _, function := range functions {
		if names[function.Name] {
			return nil, fmt.Errorf("%s contains several Functions named %s; build each namespace separately", path, function.Name)
		}
		names[function.Name] = true
	}
	return functions, nil
}

// isDirectory reports whether path is a directory, or ends with a separator and will become one, as
// for go build.
func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir() || os.IsPathSeparator(path[len(path)-1])
}

// function builds one Function.
func (b *build) function(ctx context.Context, function *manifest.Function) outcome {
	started := time.Now()
	binary, work, err := b.output(function)
	if err != nil {
		return newOutcome(nil, time.Since(started), err)
	}
	defer os.RemoveAll(work) //nolint:errcheck // what is left over is told by its name
	tools, err := toolchain.Find(ctx, b.environ)
	if err != nil {
		return newOutcome(nil, time.Since(started), err)
	}
	if note := tools.Unconfined(); note != "" {
		b.notef("%s", note)
	}
	maker := &builder.Builder{Toolchain: tools, Timeout: b.timeout, Tests: b.tests, Progress: b.err}
	if b.trace {
		maker.Trace = b.err
	}
	finished := filepath.Join(work, "binary")
	result, err := maker.Build(ctx, function.Source, finished)
	if err == nil {
		err = moveBinary(finished, binary)
	}
	o := newOutcome(maker, time.Since(started), err)
	if err == nil {
		o.report.AddWarnings(result)
		b.resultf("%s: built %s in %s, the compiler used %d MiB", function.Name, cmp.Or(b.binary, binary), o.report.Duration, result.PeakMemory>>20)
		if note := memoryNote(result.PeakMemory); note != "" && !tools.Sealed {
			b.notef("%s: %s", function.Name, note)
		}
	}
	return o
}

// memoryNote returns a warning if one process of a build used more memory than the default limit of
// clusters, which applies to all processes of a build together. peak is in bytes.
func memoryNote(peak int64) string {
	if peak <= buildservice.DefaultMemory {
		return ""
	}
	return fmt.Sprintf("warning: the compiler used %d MiB, more than the %d MiB that a cluster allows by default; raise spec.build.resources.limits.memory, and set spec.build.strategy to InPod if the build service allows less",
		peak>>20, buildservice.DefaultMemory>>20)
}

// output returns the absolute paths of the binary and of a new temporary directory for building it.
// It returns an error if the binary would replace a file that is not a program. The path of the
// binary is:
//
//   - the path of --output-binary, if that is not a directory
//   - the name of the Function in that directory
//   - the name of the Function without --output-binary, with .bin if a directory has that name
func (b *build) output(function *manifest.Function) (binary, work string, err error) {
	name := toolchain.Executable(function.Name)
	inside := b.binary != "" && isDirectory(b.binary)
	if (b.binary == "" || inside) && !isFileName(name) {
		return "", "", fmt.Errorf("building %q: metadata.name cannot name a file; rename the Function or set --output-binary", function.Name)
	}
	path := cmp.Or(b.binary, name)
	if b.binary == "" && isDirectory(path) { // usually the directory of the source
		path += ".bin"
	}
	if inside {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return "", "", err
		}
		path = filepath.Join(path, name)
	}
	if err := checkBinary(path); err != nil {
		return "", "", err
	}
	if binary, err = filepath.Abs(path); err != nil {
		return "", "", err
	}
	work, err = workDir(path)
	return binary, work, err
}

// explain prints why a build failed, unless there are diagnostics.
func (b *build) explain(prefix string, r builder.Report) {
	if r.Reason != builder.Built && len(r.Diagnostics) == 0 {
		b.problemf("%s%s", prefix, r.Message)
	}
}

// end prints the diagnostics, writes the report and returns the exit code of the worst outcome.
func (b *build) end(worst outcome) error {
	printed := b.print()
	switch {
	case b.report != "":
		return b.writeReport(worst)
	case worst.code == exitBuilder:
		return exitUsage
	case worst.code != 0:
		return exitSource
	}
	return printed
}

func (b *build) writeReport(o outcome) error {
	data, err := o.report.Marshal()
	if err == nil {
		err = os.WriteFile(b.report, data, 0o644)
	}
	if err != nil {
		b.problemf("writing the report: %v", err)
		return exit(exitBuilder)
	}
	return o.code
}

// outcome is the result of building one Function.
type outcome struct {
	report builder.Report
	code   exit // with --report
}

// exitBuilder is the exit code with --report if the source is not at fault.
const exitBuilder = 20

// newOutcome returns the outcome of a build, see builder.NewReport.
func newOutcome(b *builder.Builder, took time.Duration, err error) outcome {
	o := outcome{report: builder.NewReport(b, took, err)}
	switch o.report.Reason {
	case builder.Built:
	case builder.CompileFailed:
		o.code = 10
		if builder.TooLarge(err) {
			o.code = 14
		}
	case builder.BuildTimeout:
		o.code = 11
	case builder.BuildOutOfMemory:
		o.code = 12
	case builder.InvalidSource:
		o.code = 13
	default:
		o.code = exitBuilder
	}
	return o
}
