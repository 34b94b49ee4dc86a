package gotool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// explain finds out why a build failed.
func (t *Toolchain) explain(b Build, r *result) error {
	author := diagnosis{build: b}
	var rest []string
	for _, unit := range units(&r.stdout) {
		rest = append(rest, author.read(unit.importPath, t.hidePaths(b, unit.text))...)
	}
	rest = append(rest, t.hidePaths(b, r.stderr.String())...)
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
	case mentions("no space left on device"):
		return unexpected(rest)
	case len(author.diagnostics) > 0:
		return author.err()
	case author.crashed != "":
		author.crash()
		return author.err()
	default:
		return unexpected(rest)
	}
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

// hidePaths splits text into lines that do not say where the builder keeps
// things, banners left out.
func (t *Toolchain) hidePaths(b Build, text string) []string {
	text = where.ReplaceAllStringFunc(text, func(match string) string {
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
