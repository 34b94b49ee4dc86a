package gotool

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"goless.io/builder/handler"
)

// explain finds out why a build failed.
func (t *Toolchain) explain(b Build, r *result) error {
	var author diagnosis
	var rest []string
	for _, unit := range units(&r.stdout) {
		text := t.hidePaths(b, unit.text)
		if b.isAuthors(unit.importPath) {
			author.read(b, unit.importPath, text)
		} else {
			rest = append(rest, text...)
		}
	}
	rest = slices.Concat(author.unplaced, rest, t.hidePaths(b, r.stderr.String()))
	mentions := func(signs ...string) bool {
		return slices.ContainsFunc(rest, func(line string) bool {
			return slices.ContainsFunc(signs, func(sign string) bool { return strings.Contains(line, sign) })
		})
	}
	switch {
	case r.killed() || mentions("signal: killed", "runtime: out of memory", "cannot allocate memory"):
		return ErrOutOfMemory
	case mentions("file size limit exceeded", "file too large"):
		return ErrTooLarge
	case len(author.diagnostics) > 0:
		return author.err()
	case len(author.unplaced) > 0:
		author.crash(author.unplaced[0])
		return author.err()
	default:
		return unexpected(rest)
	}
}

// unexpected makes an error of output that is nobody's in particular.
func unexpected(lines []string) error {
	const most = 5
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.TrimSpace(line) == "" })
	if len(lines) == 0 {
		return errors.New("the go command failed and said nothing")
	}
	return fmt.Errorf("the go command failed: %s", strings.Join(lines[:min(len(lines), most)], "; "))
}

// isAuthors reports whether what is said about a package is for the author: it
// is the author's package, or the author imports it and it cannot be loaded.
func (b Build) isAuthors(importPath string) bool {
	return importPath == b.Module+"/"+b.Package ||
		slices.ContainsFunc(b.Imports, func(i handler.Import) bool { return i.Path == importPath })
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

// hidePaths splits text into lines that do not say where the builder keeps
// things, banners left out.
func (t *Toolchain) hidePaths(b Build, text string) []string {
	text = inGoroot.ReplaceAllStringFunc(text, func(match string) string {
		if strings.Contains(match, t.Root) {
			return ""
		}
		return match
	})
	text = strings.NewReplacer(b.Dir+"/", "", t.Root, "$GOROOT", t.Modules, "$GOMODCACHE", t.Cache, "$GOCACHE").Replace(text)
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\r\n"); !strings.HasPrefix(line, "# ") {
			lines = append(lines, line)
		}
	}
	return lines
}

// inGoroot matches where a package was expected, which ends some messages.
var inGoroot = regexp.MustCompile(` (in [^()\s]+|\([^()\s]+\))(\n|$)`)

// A diagnosis is made of what was written for the author.
type diagnosis struct {
	diagnostics []handler.Diagnostic
	unplaced    []string // lines that belong to no diagnostic
	internal    bool
}

// placed matches a line of the compiler about a file of the author, and the lines
// below it that explain it.
var placed = regexp.MustCompile(`^(\s*)([^\s:]+\.go):(\d+)(?::(\d+))?: (.*)$`)

// read adds what the lines about one package say.
func (d *diagnosis) read(b Build, importPath string, lines []string) {
	before := len(d.diagnostics)
	for _, line := range lines {
		file, place := d.match(b, line)
		continues := strings.HasPrefix(line, "\t") && len(d.diagnostics) > before
		switch {
		case place != nil && !continues:
			d.add(file, place)
		case strings.HasPrefix(line, "package ") || isChain(line, b):
			// How the go command came to the package, without a place.
		case strings.HasPrefix(line, "\timports "+importPath+": "):
			d.addImport(b, importPath, strings.TrimPrefix(line, "\timports "+importPath+": "))
		case continues:
			d.extend(strings.ReplaceAll(line, b.Package+"/", ""))
		case strings.TrimSpace(line) != "" && line != "too many errors":
			d.unplaced = append(d.unplaced, line)
		}
	}
}

// match returns the file of a line that has a place in the author's package, and
// the parts of the line.
func (d *diagnosis) match(b Build, line string) (file string, parts []string) {
	parts = placed.FindStringSubmatch(line)
	if parts == nil {
		return "", nil
	}
	file, ok := strings.CutPrefix(path.Clean(parts[2]), b.Package+"/")
	if !ok {
		return "", nil
	}
	return file, parts
}

func (d *diagnosis) add(file string, parts []string) {
	line, _ := strconv.Atoi(parts[3]) // digits
	column, _ := strconv.Atoi(parts[4])
	message := parts[5]
	if strings.HasPrefix(message, "internal compiler error") {
		d.internal = true
	}
	d.diagnostics = append(d.diagnostics, handler.NewDiagnostic(file, line, column, message))
}

// addImport adds an error whose place is that of the import.
func (d *diagnosis) addImport(b Build, importPath, message string) {
	for _, i := range b.Imports {
		if i.Path == importPath {
			message = fmt.Sprintf("cannot import %q: %s", importPath, message)
			d.diagnostics = append(d.diagnostics, handler.NewDiagnostic(handler.Filename, i.Line, i.Column, message))
			return
		}
	}
}

// extend adds a line to the last diagnostic. Nothing follows a failure of the
// compiler but its own stack.
func (d *diagnosis) extend(line string) {
	if d.internal {
		return
	}
	last := &d.diagnostics[len(d.diagnostics)-1]
	*last = handler.NewDiagnostic(last.File, last.Line, last.Column, last.Message+"; "+strings.TrimSpace(line))
}

// crash makes a diagnostic of a compiler that ended without one.
func (d *diagnosis) crash(line string) {
	d.internal = true
	d.diagnostics = append(d.diagnostics, handler.NewDiagnostic(handler.Filename, 1, 1, "internal compiler error: "+strings.TrimPrefix(line, "<unknown line number>: internal compiler error: ")))
}

func (d *diagnosis) err() error {
	kept := min(len(d.diagnostics), maxDiagnostics)
	return &CompileError{Diagnostics: d.diagnostics[:kept], Omitted: len(d.diagnostics) - kept, Internal: d.internal}
}

// isChain reports whether line is one of the imports that lead to the author's
// package.
func isChain(line string, b Build) bool {
	return line == "\timports "+b.Module+"/"+b.Package
}

// trace writes what the go command says that it executes.
func trace(to io.Writer, r *result) {
	for _, u := range units(bytes.NewReader(r.stdout.Bytes())) {
		fmt.Fprint(to, u.text)
	}
	for scanner := bufio.NewScanner(bytes.NewReader(r.stderr.Bytes())); scanner.Scan(); {
		fmt.Fprintln(to, scanner.Text())
	}
}
