package parts

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// part is one or more programs that one go command builds.
type part struct {
	// name names the part to people and in the cache.
	name string
	// cost tells people what they wait for when nothing is cached.
	cost string
	// dir is the folder of the programs' source, and of the module that holds
	// it unless module names another folder. Empty for a published module.
	dir string
	// main is the module whose version is the part's, if not dir's own.
	main string
	// published are packages with versions, as go install takes them.
	published []string
}

// containerd is built as published; nothing else depends on its version.
const containerd = "v2.4.2"

var all = []part{
	{name: "kubernetes", cost: "about 4 minutes", dir: "kubernetes", main: "k8s.io/kubernetes"},
	{name: "coredns", cost: "about 45 seconds", dir: "coredns", main: "github.com/coredns/coredns"},
	{name: "containerd", cost: "about 50 seconds", published: []string{
		"github.com/containerd/containerd/v2/cmd/containerd@" + containerd,
		"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2@" + containerd,
	}},
	{name: "pause", cost: "a second", dir: "cmd/pause"},
}

// programs are the names of the files that the part consists of.
func (p part) programs() []string {
	if p.published == nil {
		return []string{path.Base(p.dir)}
	}
	var names []string
	for _, pkg := range p.published {
		base, _, _ := strings.Cut(path.Base(pkg), "@")
		names = append(names, base)
	}
	return names
}

// key changes with everything that the part's programs are made of: the source,
// which pins the versions of its modules, and the Go that compiles it.
func (p part) key(source, goVersion string) (string, error) {
	sum := sha256.New()
	_, _ = fmt.Fprintln(sum, goVersion, p.published) // a hash never fails
	if p.published == nil {
		if err := hashFolder(sum, filepath.Join(source, p.dir)); err != nil {
			return "", fmt.Errorf("source of %s: %w", p.name, err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// hashFolder writes the names and contents of all files below dir to sum.
func hashFolder(sum io.Writer, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // it is only a directory
	files := root.FS()
	return fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(sum, "%s %d\n%s\n", name, len(data), data)
		return err
	})
}
