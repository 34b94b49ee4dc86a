package gotool

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

	"goless.io/builder/internal/program"
)

// explain finds out why a build of p failed.
func (t *Toolchain) explain(p *program.Program, r *result) error {
	author := diagnosis{program: p}
	var rest []string
	for _, unit := range units(&r.stdout) {
		rest = append(rest, author.read(unit.importPath, t.hidePaths(p, unit.text))...)
	}
	rest = append(rest, t.hidePaths(p, r.stderr.String())...)
	switch {
	case r.killed() || mentions(rest, append(outOfMemory, "signal: killed")...),
		r.limited && slices.Contains(rest, brokenRuntime):
		return ErrOutOfMemory
	case mentions(rest, "file size limit exceeded", "file too large"):
		return ErrTooLarge
	case mentions(rest, "no space left on device"):
		return unexpected(rest)
	case len(author.diagnostics) > 0:
		return compileError(author.diagnostics, author.internal)
	case author.crashed != "":
		author.crash()
		return compileError(author.diagnostics, author.internal)
	case len(author.dependency) > 0:
		return compileError(author.dependency, false)
	case p.Handler.Module != nil:
		if f, ok := newFault(p, "", "", strings.Join(rest, "\n")); ok {
			return faultsError([]fault{f})
		}
		return unexpected(rest)
	default:
		return unexpected(rest)
	}
}

// outOfMemory is what programs in Go say, and what the kernel does, when there is
// no more.
var outOfMemory = []string{
	"runtime: out of memory",
	"fatal error: out of memory",
	"fatal error: runtime: cannot allocate",
	"cannot allocate memory",
}

// brokenRuntime is how a program in Go ends that is denied memory where its garbage
// collector does not expect it. A compiler that is wrong itself says something else.
const brokenRuntime = "SIGSEGV: segmentation violation"

// mentions reports whether one of lines holds one of signs.
func mentions(lines []string, signs ...string) bool {
	return slices.ContainsFunc(lines, func(line string) bool {
		return slices.ContainsFunc(signs, func(sign string) bool { return strings.Contains(line, sign) })
	})
}

// unexpected makes an error of output that is nobody's in particular.
func unexpected(lines []string) error {
	const most = 5
	lines = slices.DeleteFunc(lines, func(line string) bool {
		return strings.TrimSpace(line) == "" || strings.HasPrefix(line, "go: downloading ")
	})
	if len(lines) == 0 {
		return errors.New("the go command failed and said nothing")
	}
	return fmt.Errorf("the go command failed: %s", strings.Join(lines[:min(len(lines), most)], "; "))
}

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

// hidePaths splits text into lines that do not say where the builder keeps
// things, banners left out.
func (t *Toolchain) hidePaths(p *program.Program, text string) []string {
	text = where.ReplaceAllStringFunc(text, func(match string) string {
		if strings.Contains(match, t.Root) {
			return ""
		}
		return match
	})
	modules := t.modules(p)
	hidden := []string{modules, hiddenModules}
	// The go command prefers a relative path where it is the shorter one.
	if relative, err := filepath.Rel(p.Dir, modules); err == nil {
		hidden = append(hidden, relative+"/", hiddenModules+"/")
	}
	hidden = append(hidden, p.Dir+"/", "", t.Root, "$GOROOT", t.Modules, hiddenModules, t.Cache, "$GOCACHE")
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

// where matches the directory in which a package was expected, which ends some
// messages.
var where = regexp.MustCompile(`(?m) (in [^()\s]+|\([^()\s]+\))$`)

// trace writes what the go command says that it executes.
func trace(to io.Writer, r *result) error {
	for _, u := range units(bytes.NewReader(r.stdout.Bytes())) {
		if _, err := io.WriteString(to, u.text); err != nil {
			return err
		}
	}
	_, err := to.Write(r.stderr.Bytes())
	return err
}
