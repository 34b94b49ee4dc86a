// Package diagnose determines why a build failed and who can fix it. It reads the output of the
// compiler, the linker and the go command, and distinguishes:
//
//   - mistakes of the author, which become diagnostics with positions in the author's files,
//   - a module proxy that does not respond,
//   - exceeded limits,
//   - failures of the machine.
package diagnose

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"goless.io/builder/handler"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/sandbox"
	"goless.io/builder/internal/toolchain"
)

// Explain returns the error for a failed build of p. r is the result of the command, and err its
// error. Explain returns:
//
//   - a *handler.Error if the compiler or the linker rejects the program, or the compiler has
//     crashed, since a retry would crash again,
//   - ErrFetch, sandbox.ErrOutOfMemory or sandbox.ErrTooLarge (possibly wrapped) for those
//     causes,
//   - any other error for a failure of the machine, which may be temporary.
func Explain(t *toolchain.Toolchain, p *program.Program, r *sandbox.Result, err error) error {
	return explain(t, p, r, err, "")
}

// explain is Explain for a build of p or, unless testFile is empty, of the tests of a package that
// contains this test file.
func explain(t *toolchain.Toolchain, p *program.Program, r *sandbox.Result, err error, testFile string) error {
	if IsLimit(err) || r.State == nil {
		return err
	}
	author := diagnosis{program: p, tools: t, overrides: p.Overrides(), packages: newPackageReader(t, p), testFile: testFile}
	var rest []string
	for _, unit := range units(&r.Stdout) {
		rest = append(rest, author.read(unit.importPath, Lines(t, p, unit.text))...)
	}
	rest = append(rest, Lines(t, p, r.Stderr.String())...)
	author.readLinker(rest)
	switch {
	case OutOfMemory(r, err, rest):
		return sandbox.ErrOutOfMemory
	case IsFileTooLarge(rest):
		return errFileSize
	case len(author.diagnostics) > 0 && !author.internal:
		found := newError(author.diagnostics)
		addCgo(author.packages, found.Diagnostics)
		return found
	case r.Killed() || IsMachineTrouble(rest):
		return Unexpected(rest)
	case author.internal:
		return newError(author.diagnostics)
	case len(author.dependency) > 0:
		return newError(author.dependency)
	}
	if f, ok := ModuleFault(p, p.Overrides, "", "", strings.Join(rest, "\n")); ok && (f.Fetch || p.Source.GoMod != nil) {
		return FaultsError([]Fault{f})
	}
	return Unexpected(rest)
}

// OutOfMemory reports whether a command that ended with err and wrote lines needed more memory than
// it may use. If the builder limits the memory of the command, a SIGKILL that the builder did not
// send does not count: it came from the kernel or from another process, because the machine is out
// of memory, not the command.
func OutOfMemory(r *sandbox.Result, err error, lines []string) bool {
	lines = slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		return strings.Contains(line, notStarted) // which does not depend on the program
	})
	switch {
	case errors.Is(err, sandbox.ErrOutOfMemory):
		return true
	case r.MemoryLimited:
		return mentions(lines, noMemory...) || slices.Contains(lines, brokenRuntime)
	default:
		return r.Killed() || mentions(lines, noMemory...) || mentions(lines, killed)
	}
}

// noMemory are messages of Go programs that cannot allocate memory.
var noMemory = []string{
	"runtime: out of memory",
	"fatal error: out of memory",
	"fatal error: runtime: cannot allocate",
	"cannot allocate memory",
}

// killed is the go command's message about a compiler that the kernel has killed.
const killed = "signal: killed"

// notStarted is the prefix of the go command's message about a compiler that the kernel did not
// start.
const notStarted = "fork/exec "

// largeFile are messages about an exceeded limit on the size of files.
var largeFile = []string{"file size limit exceeded", "file too large"}

// trouble are messages about a lack of resources on the machine.
var trouble = []string{
	killed,
	"failed to create new OS thread",
	"resource temporarily unavailable",
	notStarted,
	"no space left on device",
	"disk quota exceeded",
	"too many open files",
	"input/output error",
	"text file busy",
	"read-only file system",
	"SIGBUS: bus error",
	"could not import ", // a cached package cannot be read
}

// brokenRuntime is the message of a Go program that is denied memory where its garbage collector
// does not expect it. A bug in the compiler causes other messages.
const brokenRuntime = "SIGSEGV: segmentation violation"

// IsFileTooLarge reports whether the lines contain an error about a file larger than
// sandbox.MaxFileSize.
func IsFileTooLarge(lines []string) bool { return mentions(lines, largeFile...) }

// IsMachineTrouble reports whether the lines contain an error about a lack of resources that the
// program does not cause.
func IsMachineTrouble(lines []string) bool { return mentions(lines, trouble...) }

// mentions reports whether one of the lines contains one of the signs.
func mentions(lines []string, signs ...string) bool {
	return slices.ContainsFunc(lines, func(line string) bool {
		return slices.ContainsFunc(signs, func(sign string) bool { return strings.Contains(line, sign) })
	})
}

// Unexpected returns an error with the first lines of an output that was not recognized.
func Unexpected(lines []string) error {
	const most = 5
	lines = slices.DeleteFunc(lines, func(line string) bool {
		return strings.TrimSpace(line) == "" || isProgress(line)
	})
	if len(lines) == 0 {
		return errors.New("the go command failed without output")
	}
	return fmt.Errorf("the go command failed: %s", strings.Join(lines[:min(len(lines), most)], "; "))
}

// isProgress reports whether a line is a progress message of the go command.
func isProgress(line string) bool { return strings.HasPrefix(line, "go: downloading ") }

// A unit is the output about one package.
type unit struct {
	importPath string
	text       string
}

// units groups the output of go build -json by package, in order of first appearance.
func units(output io.Reader) []unit {
	var all []unit
	for decoder := json.NewDecoder(output); ; {
		var event struct{ ImportPath, Action, Output string }
		if decoder.Decode(&event) != nil {
			return all // end of the output, or where it was truncated
		}
		if event.Action != "build-output" {
			continue
		}
		i := slices.IndexFunc(all, func(u unit) bool { return u.importPath == event.ImportPath })
		if i < 0 {
			i, all = len(all), append(all, unit{importPath: event.ImportPath})
		}
		all[i].text += event.Output
	}
}

// hiddenModules replaces the path of the module cache in output for users.
const hiddenModules = "$GOMODCACHE"

// Lines splits the output of a build of p into lines, and drops lines that only name a package or a
// directory. It replaces the builder's own directories with names such as $GOROOT.
func Lines(t *toolchain.Toolchain, p *program.Program, text string) []string {
	text = where.ReplaceAllStringFunc(text, func(match string) string {
		if strings.Contains(match, t.Root) {
			return ""
		}
		return match
	})
	modules := t.ModuleCache(p)
	text = toolchain.Slashes(text, modules, p.Dir, t.Root, t.Modules, t.Cache)
	hidden := []string{filepath.ToSlash(modules), hiddenModules}
	// The go command uses a relative path where that is shorter.
	if relative, err := filepath.Rel(p.Dir, modules); err == nil {
		hidden = append(hidden, filepath.ToSlash(relative)+"/", hiddenModules+"/")
	}
	hidden = append(hidden, filepath.ToSlash(p.Dir)+"/", "", filepath.ToSlash(t.Root), "$GOROOT",
		filepath.ToSlash(t.Modules), hiddenModules, filepath.ToSlash(t.Cache), "$GOCACHE")
	text = strings.NewReplacer(hidden...).Replace(text)
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if !strings.HasPrefix(line, "# ") && !strings.HasPrefix(line, "WORK=") {
			lines = append(lines, line)
		}
	}
	return lines
}

// where matches the directory, at the end of a message, in which a package was expected.
var where = regexp.MustCompile(`(?m) (in [^()\s]+|\([^()\s]+\))$`)

// Trace writes the commands that go build -json -x reports.
func Trace(to io.Writer, r *sandbox.Result) error {
	for _, u := range units(bytes.NewReader(r.Stdout.Bytes())) {
		if _, err := io.WriteString(to, u.text); err != nil {
			return err
		}
	}
	_, err := to.Write(r.Stderr.Bytes())
	return err
}

// ErrFetch means that modules could not be fetched, for a reason that the author of the program
// cannot fix. A retry may succeed.
var ErrFetch = errors.New("fetching modules failed")

// errFileSize is the ErrTooLarge for a single file.
var errFileSize = fmt.Errorf("%w: the binary, or a compiled package, has more than %d MiB; make large variables and embedded files smaller", sandbox.ErrTooLarge, sandbox.MaxFileSize>>20)

// IsLimit reports whether a build failed because it exceeded its memory or size limit. It would
// probably fail again, so the slower go command is not tried.
func IsLimit(err error) bool {
	return errors.Is(err, sandbox.ErrOutOfMemory) || errors.Is(err, sandbox.ErrTooLarge)
}

// maxDiagnostics is the maximum number of diagnostics of an error.
const maxDiagnostics = 100

// NewError returns the error about a program that does not compile. It contains the first hundred
// diagnostics, sorted by position, without duplicates.
func NewError(all []handler.Diagnostic) *handler.Error { return newError(sorted(all)) }

// newError returns a *handler.Error with the first hundred diagnostics.
func newError(all []handler.Diagnostic) *handler.Error {
	kept := min(len(all), maxDiagnostics)
	return &handler.Error{Diagnostics: all[:kept], Omitted: len(all) - kept, Compiled: true}
}
