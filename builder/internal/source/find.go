package source

import (
	"os"
	"path/filepath"
	"strings"
)

// FindModule returns the directory of the go.mod for the Go files in dir: like the go command, dir
// or the nearest parent directory with a go.mod. The result is relative if dir is. It is empty if
// there is no go.mod.
func FindModule(dir string) string {
	found, err := filepath.Abs(dir)
	if err != nil {
		return ""
	}
	for !hasGoMod(found) {
		up := filepath.Dir(found)
		if up == found {
			return ""
		}
		found = up
	}
	if filepath.IsAbs(dir) {
		return found
	}
	return fromWorkingDir(found)
}

func hasGoMod(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil && !info.IsDir() && dir != filepath.Clean(os.TempDir()) // the go command ignores it, too
}

// fromWorkingDir returns name relative to the working directory.
func fromWorkingDir(name string) string {
	here, err := os.Getwd()
	if err != nil {
		return name
	}
	abs, err := filepath.Abs(name)
	if err != nil {
		return name
	}
	if rel, err := filepath.Rel(here, abs); err == nil {
		return rel
	}
	return name
}

// relative returns dir relative to the module in root, with slashes.
func relative(root, dir string) (string, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return "", err
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	rel, err := filepath.Rel(root, abs)
	return filepath.ToSlash(rel), err
}

// InDir joins dir and the slash-separated name of a file. If the result begins with .., InDir
// returns the shortest relative path to the same file.
func InDir(dir, name string) string {
	joined := filepath.Join(dir, filepath.FromSlash(name))
	if strings.HasPrefix(joined, "..") {
		return fromWorkingDir(joined)
	}
	return joined
}
