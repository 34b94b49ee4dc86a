package input

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/tools/txtar"

	"goless.io/builder/handler"
)

// maxFiles bounds the files of a directory. Whoever has more has probably named the wrong
// one.
const maxFiles = 10000

// readDirectory returns the Function of the Go module in a directory, or of the Go
// package if there is no go.mod. All files belong to the source, except for modules below the
// directory, go.work, and what nothing embeds although only that makes it of use: hidden
// files, compiled programs, and others that are no text.
func readDirectory(dir string) ([]*Function, []string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close() //nolint:errcheck // it was only read
	found, notes, err := walk(dir, root)
	if err != nil {
		return nil, notes, err
	}
	r := directoryReader{dir: dir, root: root}
	if err := r.read(found); err != nil {
		return nil, notes, err
	}
	notes = append(notes, r.notes...)
	if !slices.ContainsFunc(r.files, func(f handler.File) bool { return path.Ext(f.Name) == ".go" }) {
		return nil, notes, fmt.Errorf("%s holds no Go file", dir)
	}
	function, err := newDirectory(directoryName(dir, r.files), dir, r.files)
	if err != nil {
		return nil, notes, err
	}
	return []*Function{function}, append(notes, r.embedded.openNotes(dir, r.files)...), nil
}

// newDirectory returns the Function of the files in dir. The source is an archive, unless
// handler.go is the only file.
func newDirectory(name, dir string, files []handler.File) (*Function, error) {
	slices.SortStableFunc(files, func(a, b handler.File) int { return cmp.Compare(rank(a.Name), rank(b.Name)) })
	f := &Function{Name: name, files: files, file: dir, dir: dir}
	if len(files) == 1 && files[0].Name == handler.Filename {
		f.Source = files[0].Data
		return f, nil
	}
	for _, file := range files {
		if err := checkArchivable(dir, file); err != nil {
			return nil, err
		}
	}
	f.Source = handler.Format(files)
	if count := utf8.RuneCount(f.Source); count > handler.MaxCharacters {
		return nil, tooLarge(dir, fmt.Sprintf("%d characters", count), sizes(files))
	}
	return f, nil
}

// rank orders the files of an archive for its readers: what tools write comes last.
func rank(name string) int {
	switch {
	case strings.HasPrefix(name, "vendor/"):
		return 4
	case name == "go.sum":
		return 3
	case name == "go.mod":
		return 2
	case path.Ext(name) == ".go" && path.Base(name) == name:
		return 0
	}
	return 1
}

// checkArchivable returns an error if an archive cannot hold the name of a file, or the content
// of a Go file.
func checkArchivable(dir string, file handler.File) error {
	name := inDir(dir, file.Name)
	if strings.TrimSpace(file.Name) != file.Name || strings.ContainsAny(file.Name, "\r\n") {
		return authorError(name, 1, 0, "no file of a Function can have this name: choose one without line breaks, and without spaces at its ends")
	}
	if path.Ext(file.Name) != ".go" {
		return nil // handler.Format encodes what is no text
	}
	if !isText(file.Data) {
		// A replacement character that is really there is as good a place to look at.
		before := file.Data[:bytes.IndexFunc(file.Data, func(r rune) bool { return r == 0 || r == utf8.RuneError })]
		line, column := 1+bytes.Count(before, []byte("\n")), len(before)-bytes.LastIndexByte(before, '\n')
		return authorError(name, line, column, "the file is not UTF-8 text, and Go is nothing else: save it as UTF-8, without NUL characters")
	}
	if archive := txtar.Parse(file.Data); len(archive.Files) > 0 {
		line := 1 + bytes.Count(archive.Comment, []byte("\n"))
		return authorError(name, line, 1, "the line would begin another file where a Function holds several: indent it")
	}
	return nil
}

func isText(data []byte) bool { return utf8.Valid(data) && bytes.IndexByte(data, 0) < 0 }

// A found is a file of a directory. Its name has slashes.
type found struct {
	name string
	size int64
}

// walk returns the files that may belong to the source in lexical order.
func walk(dir string, root *os.Root) (files []found, notes []string, err error) {
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name != "." && strings.HasPrefix(entry.Name(), "."):
			return skip(entry)
		case entry.IsDir():
			if isModule(root, name) {
				notes = append(notes, fmt.Sprintf("%s is a module of its own, left out", filepath.Join(dir, name)))
				return fs.SkipDir
			}
			return nil
		case name == "go.work", name == "go.work.sum":
			notes = append(notes, fmt.Sprintf("%s is for this machine, left out", filepath.Join(dir, name)))
			return nil
		}
		info, err := stat(dir, root, name, entry)
		if err != nil {
			return err
		}
		if info.Mode().IsRegular() {
			files = append(files, found{name, info.Size()})
		}
		if len(files) > maxFiles {
			return fmt.Errorf("it holds more than %d files, which is no function", maxFiles)
		}
		return nil
	})
	if err != nil {
		return nil, notes, fmt.Errorf("reading %s: %w", dir, err)
	}
	return files, notes, nil
}

// stat follows links that stay inside of the directory.
func stat(dir string, root *os.Root, name string, entry fs.DirEntry) (fs.FileInfo, error) {
	info, err := root.Stat(filepath.FromSlash(name))
	if err != nil && entry.Type()&fs.ModeSymlink != 0 {
		return nil, authorError(filepath.Join(dir, name), 1, 0, "the link leads out of the directory, or nowhere: put the file in its place")
	}
	return info, err
}

func skip(entry fs.DirEntry) error {
	if entry.IsDir() {
		return fs.SkipDir
	}
	return nil
}

// isModule reports whether the directory called name, below the root, has a go.mod.
func isModule(root *os.Root, name string) bool {
	_, err := root.Stat(filepath.FromSlash(path.Join(name, "go.mod")))
	return name != "." && err == nil
}

func sizes(files []handler.File) []found {
	var all []found
	for _, file := range files {
		all = append(all, found{file.Name, int64(len(file.Data))})
	}
	return all
}

// tooLarge returns the error for a directory with too many bytes, with its largest files.
func tooLarge(dir, total string, files []found) error {
	const most = 5
	files = slices.Clone(files)
	slices.SortStableFunc(files, func(a, b found) int { return cmp.Compare(b.size, a.size) })
	var largest []string
	for _, file := range files[:min(len(files), most)] {
		largest = append(largest, fmt.Sprintf("%s (%s)", file.name, megabytes(file.size)))
	}
	return authorError(inDir(dir, files[0].name), 1, 0, fmt.Sprintf(
		"%s holds %s, a Function at most %d characters: leave out what it does not need; the largest files are %s",
		dir, total, handler.MaxCharacters, strings.Join(largest, ", ")))
}

func megabytes(size int64) string { return fmt.Sprintf("%.1f MB", float64(size)/1e6) }

// directoryName returns the last element of the module's path that says
// something, or else the name of the directory.
func directoryName(dir string, files []handler.File) string {
	for _, file := range files {
		if file.Name != "go.mod" {
			continue
		}
		if prefix, _, ok := module.SplitPathVersion(modfile.ModulePath(file.Data)); ok && prefix != "" {
			return path.Base(prefix)
		}
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "function"
	}
	if name := filepath.Base(abs); name != string(filepath.Separator) {
		return name
	}
	return "function"
}
