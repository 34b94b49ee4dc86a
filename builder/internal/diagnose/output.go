// Package diagnose says who has to act when a build fails. It reads what the
// compiler, the linker and the go command have written, and tells the mistakes of
// an author, which become diagnostics with places in the author's files, from a
// module proxy that does not answer, a limit that was exceeded and trouble of the
// machine.
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

// Explain returns why a build of p has failed. r is what is left of the command, and
// err is its error. Explain returns a *handler.Error if the compiler or the linker
// finds fault with the program, and also if the compiler has crashed, because it
// will crash again. It returns ErrFetch, or an error that is
// sandbox.ErrOutOfMemory or sandbox.ErrTooLarge, where that is why. Everything else
// is trouble of the machine, which may pass.
func Explain(t *toolchain.Toolchain, p *program.Program, r *sandbox.Result, err error) error {
	if IsLimit(err) || r.State == nil {
		return err
	}
	author := diagnosis{program: p, tools: t, overrides: p.Overrides(), packages: newPackageReader(t, p)}
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

// OutOfMemory reports whether a command, which has ended with err and has written
// lines, needed more memory than it may use. If the builder limits its memory, a
// kill by somebody else does not count: then the machine lacks memory.
func OutOfMemory(r *sandbox.Result, err error, lines []string) bool {
	lines = slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		return strings.Contains(line, notStarted) // which says nothing about what it would compile
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

// noMemory is what programs in Go say when they are denied memory.
var noMemory = []string{
	"runtime: out of memory",
	"fatal error: out of memory",
	"fatal error: runtime: cannot allocate",
	"cannot allocate memory",
}

// killed is what the go command says of a compiler that the kernel has killed.
const killed = "signal: killed"

// notStarted is what the go command says of a compiler that the kernel does not
// start.
const notStarted = "fork/exec "

// largeFile is what programs say when they reach the limit on the size of files.
var largeFile = []string{"file size limit exceeded", "file too large"}

// trouble is what programs say when the machine lacks something.
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
	"could not import ", // a package that was compiled before cannot be read
}

// brokenRuntime is how a program in Go ends that is denied memory where its garbage
// collector does not expect it. A compiler that is wrong itself says something else.
const brokenRuntime = "SIGSEGV: segmentation violation"

// IsFileTooLarge reports whether lines say that a file would have grown beyond
// sandbox.MaxFileSize.
func IsFileTooLarge(lines []string) bool { return mentions(lines, largeFile...) }

// IsMachineTrouble reports whether lines say that the machine lacks something which
// has nothing to do with the program.
func IsMachineTrouble(lines []string) bool { return mentions(lines, trouble...) }

// mentions reports whether one of lines holds one of signs.
func mentions(lines []string, signs ...string) bool {
	return slices.ContainsFunc(lines, func(line string) bool {
		return slices.ContainsFunc(signs, func(sign string) bool { return strings.Contains(line, sign) })
	})
}

// Unexpected returns an error of the first lines of an output that nobody in
// particular has to act on.
func Unexpected(lines []string) error {
	const most = 5
	lines = slices.DeleteFunc(lines, func(line string) bool {
		return strings.TrimSpace(line) == "" || isProgress(line)
	})
	if len(lines) == 0 {
		return errors.New("the go command failed and said nothing")
	}
	return fmt.Errorf("the go command failed: %s", strings.Join(lines[:min(len(lines), most)], "; "))
}

// isProgress reports whether a line only says what the go command is doing.
func isProgress(line string) bool { return strings.HasPrefix(line, "go: downloading ") }

// A unit is all that was written about one package.
type unit struct {
	importPath string
	text       string
}

// units collects the output of go build -json by package, in the order in which
// the packages first appear.
func units(output io.Reader) []unit {
	var all []unit
	for decoder := json.NewDecoder(output); ; {
		var event struct{ ImportPath, Action, Output string }
		if decoder.Decode(&event) != nil {
			return all // the end, or where the output was cut
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

// hiddenModules stands for the module cache in text that was shown to somebody.
const hiddenModules = "$GOMODCACHE"

// Lines splits the output of a build of p into lines, without those that only name
// a package or a directory. Paths of the builder's own directories become names
// such as $GOROOT.
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
	// The go command prefers a relative path where it is the shorter one.
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

// where matches the directory, at the end of a message, in which a package was
// expected.
var where = regexp.MustCompile(`(?m) (in [^()\s]+|\([^()\s]+\))$`)

// Trace writes the commands that go build -json -x says it executes.
func Trace(to io.Writer, r *sandbox.Result) error {
	for _, u := range units(bytes.NewReader(r.Stdout.Bytes())) {
		if _, err := io.WriteString(to, u.text); err != nil {
			return err
		}
	}
	_, err := to.Write(r.Stderr.Bytes())
	return err
}

// ErrFetch says that modules could not be fetched, for a reason that the author of
// the program cannot mend. It may work later.
var ErrFetch = errors.New("fetching modules failed")

// errFileSize is the ErrTooLarge of a single file.
var errFileSize = fmt.Errorf("%w: the binary, or a compiled package, has more than %d MiB; make large variables and embedded files smaller", sandbox.ErrTooLarge, sandbox.MaxFileSize>>20)

// IsLimit reports whether a build has ended for its memory or its size. It would
// end like that again.
func IsLimit(err error) bool {
	return errors.Is(err, sandbox.ErrOutOfMemory) || errors.Is(err, sandbox.ErrTooLarge)
}

// maxDiagnostics is how many diagnostics an error has at most. Nobody works through
// more before the next build.
const maxDiagnostics = 100

// NewError returns a *handler.Error about a program that does not compile. It has the
// first hundred of all diagnostics, sorted by place and each of them once.
func NewError(all []handler.Diagnostic) error { return newError(sorted(all)) }

// newError returns a *handler.Error with the first hundred of all diagnostics.
func newError(all []handler.Diagnostic) *handler.Error {
	kept := min(len(all), maxDiagnostics)
	return &handler.Error{Diagnostics: all[:kept], Omitted: len(all) - kept, Compiled: true}
}
