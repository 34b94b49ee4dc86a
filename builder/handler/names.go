package handler

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/mod/module"
)

// maxName is the maximum length of a file name in an archive, in bytes.
const maxName = 255

// checkNames rejects archives whose files cannot be created in a directory on every operating
// system, and files that a function must not contain.
func (c *checker) checkNames() {
	if len(c.files) > MaxFiles {
		c.reportAt(c.files[MaxFiles], 0, fmt.Sprintf("the archive has %d files, at most %d are allowed", len(c.files), MaxFiles))
		return
	}
	for _, f := range c.files {
		if message := checkName(f); message != "" {
			c.reportAt(f, 0, message)
		} else {
			c.checkForeign(f, c.goDirs)
		}
	}
	if len(c.findings) == 0 {
		c.checkCollisions()
	}
}

// foreign are the extensions of files that the go command would compile or link with a package, or
// would reject.
var foreign = []string{
	".s", ".S", ".sx", ".c", ".cc", ".cpp", ".cxx", ".m", ".h", ".hh", ".hpp", ".hxx",
	".f", ".F", ".for", ".f90", ".swig", ".swigcxx", ".syso",
}

// checkForeign rejects a file that the go command would compile or link with a package in one of
// dirs.
func (c *checker) checkForeign(f *file, dirs map[string]bool) {
	if dirs[f.dir] && !hidden(f.base) && slices.Contains(foreign, path.Ext(f.base)) {
		c.reportAt(f, 0, fmt.Sprintf("cannot build %s: functions consist of Go files only; remove the file or move it out of the directory of the package", f.base))
	}
}

// checkName returns why the name of a file is invalid, or the empty string.
func checkName(f *file) string {
	invalid, _ := errors.AsType[*module.InvalidPathError](module.CheckFilePath(f.Name))
	switch {
	case strings.HasPrefix(f.Name, encodedPrefix):
		return checkEncoded(f)
	case strings.Contains(f.Name, `\`):
		return `the name has a \, write / between directories`
	case strings.HasPrefix(f.Name, "/"):
		return "the name must be relative to the archive; remove the leading /"
	case slices.Contains(strings.Split(f.Name, "/"), ".."):
		return "the name is outside of the archive; write it without .."
	case path.Clean(f.Name) != f.Name:
		return "the name is not clean; write " + path.Clean(f.Name)
	case len(f.Name) > maxName:
		return fmt.Sprintf("the name has %d bytes, at most %d are allowed", len(f.Name), maxName)
	case invalid != nil:
		return fmt.Sprintf("the name is not portable: %v; use another one", invalid.Err)
	case f.isGo && !alphanumeric(f.base[0]), f.isGo && f.dir != root && !alphanumeric(path.Base(f.dir)[0]):
		return "the go command rejects the name; start the names of files and directories with a letter"
	case f.base == "go.work":
		return "a function is one module, not a workspace; remove go.work"
	case f.base == "go.mod" && f.dir != root:
		return "a function is one module; remove this go.mod"
	}
	return ""
}

// alphanumeric reports whether the go command accepts a name that begins with b: a letter, a digit,
// or a byte of a character beyond ASCII.
func alphanumeric(b byte) bool {
	return '0' <= b && b <= '9' || 'A' <= b && b <= 'Z' || 'a' <= b && b <= 'z' || b >= utf8.RuneSelf
}

// checkCollisions rejects names that conflict with each other in a file system, including one that
// ignores case.
func (c *checker) checkCollisions() {
	files := make(map[string]*file)
	for _, f := range c.files {
		folded := strings.ToLower(f.Name)
		first := files[folded]
		switch {
		case first == nil:
			files[folded] = f
		case first.Name == f.Name:
			c.reportAt(f, 0, f.Name+" is in the archive twice; remove one")
		default:
			c.reportAt(f, 0, fmt.Sprintf("the name differs from %s only in case; rename one", first.Name))
		}
	}
	dirs := make(map[string]bool)
	for _, f := range c.files {
		for dir := path.Dir(strings.ToLower(f.Name)); dir != root && dir != "/"; dir = path.Dir(dir) {
			if outer := files[dir]; outer != nil {
				c.reportAt(f, 0, fmt.Sprintf("%s is both a file and a directory; rename one", outer.Name))
			}
			dirs[dir] = true
		}
		if len(dirs) > MaxFiles { // each directory takes space on disk
			c.reportAt(f, 0, fmt.Sprintf("the archive has more than %d directories; use fewer", MaxFiles))
			return
		}
	}
}
