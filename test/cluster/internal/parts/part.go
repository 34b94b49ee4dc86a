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

// part consists of one or more programs that one go command builds.
type part struct {
	// name is the name of the part in messages.
	name string
	// cost describes the duration of an uncached build.
	cost string
	// dir is the directory of the programs' source. It is also that of their module, unless
	// module is set. It is empty for a published module.
	dir string
	// main is the module whose version is that of the part, if it is not that of dir.
	main string
	// published contains packages with versions, in the format of go install.
	published []string
	// kubernetes is the version of Kubernetes that requires the part. It is empty if all clusters
	// require it.
	kubernetes string
}

// Oldest is the oldest version of Kubernetes that Goless supports. A cluster may run it instead of
// the version in kubernetes/go.mod, which is the default.
const Oldest = "1.30"

const kubernetesModule = "k8s.io/kubernetes"

// containerd is built from its published version. No other part depends on that version.
const containerd = "v2.4.2"

var all = []part{
	{name: "kubernetes", cost: "about 5 minutes", dir: "kubernetes", main: kubernetesModule},
	{name: "kubernetes", cost: "about 4 minutes", dir: "kubernetes-" + Oldest, main: kubernetesModule, kubernetes: Oldest},
	{name: "coredns", cost: "about 45 seconds", dir: "coredns", main: "github.com/coredns/coredns"},
	{name: "containerd", cost: "about 50 seconds", published: []string{
		"github.com/containerd/containerd/v2/cmd/containerd@" + containerd,
		"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2@" + containerd,
	}},
	{name: "pause", cost: "a second", dir: "cmd/pause"},
}

// Kubernetes returns the name of the program of a version of Kubernetes, which is Oldest, or empty
// for the default.
func Kubernetes(version string) (string, error) {
	switch version {
	case "":
		return "kubernetes", nil
	case Oldest:
		return "kubernetes-" + Oldest, nil
	}
	return "", fmt.Errorf("no Kubernetes %s can be built: use %s, or leave it empty for the default", version, Oldest)
}

// programs returns the names of the part's files. The first identifies the part in the cache.
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

// key returns a hash of all inputs of the part: the source, which pins the versions of its
// modules, and the version of Go.
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
