package compile

import (
	"fmt"
	"os"
	"path/filepath"

	"goless.io/builder/internal/sandbox"
)

// binaryName is that of the binary in the directory where the compiler writes.
const binaryName = "server"

// A workspace is a temporary directory for one build. What the compiler and go vet leave can
// be anything, so each has a directory of its own, and what this process writes is where
// neither of them can change it.
type workspace struct {
	dir   string // this process writes there: what configures the compiler and the linker
	build string // the compiler, the linker and the go command write there
	vet   string // go vet writes there
}

// newWorkspace makes a workspace, which the caller removes.
func newWorkspace() (workspace, error) {
	dir, err := os.MkdirTemp("", "goless-work-")
	if err != nil {
		return workspace{}, fmt.Errorf("making a directory for the compiler: %w", err)
	}
	w := workspace{dir: dir, build: filepath.Join(dir, "build"), vet: filepath.Join(dir, "vet")}
	for _, written := range []string{w.build, w.vet} {
		if err := os.Mkdir(written, 0o700); err != nil {
			w.remove()
			return workspace{}, fmt.Errorf("making a directory for the compiler: %w", err)
		}
	}
	return w, nil
}

// remove removes the workspace with all that is in it.
func (w workspace) remove() { _ = sandbox.RemoveAll(w.dir) } // it is below the temporary directory

// binary returns the path to which the linker writes.
func (w workspace) binary() string { return filepath.Join(w.build, binaryName) }
