package compile

import (
	"fmt"
	"os"
	"path/filepath"

	"goless.io/builder/internal/sandbox"
)

// binaryName is the name of the binary in workspace.build.
const binaryName = "server"

// A workspace is a temporary directory for one build. The output of the compiler and of go vet is
// untrusted, so each has its own directory, and neither can change the files that this process
// writes.
type workspace struct {
	dir   string // configurations of the compiler and the linker, written by this process
	build string // output of the compiler, the linker and the go command
	vet   string // output of go vet
}

// newWorkspace creates a workspace. The caller must remove it.
func newWorkspace() (workspace, error) {
	dir, err := os.MkdirTemp("", "goless-work-")
	if err != nil {
		return workspace{}, fmt.Errorf("creating a directory for the compiler: %w", err)
	}
	w := workspace{dir: dir, build: filepath.Join(dir, "build"), vet: filepath.Join(dir, "vet")}
	for _, written := range []string{w.build, w.vet} {
		if err := os.Mkdir(written, 0o700); err != nil {
			w.remove()
			return workspace{}, fmt.Errorf("creating a directory for the compiler: %w", err)
		}
	}
	return w, nil
}

// remove removes the workspace and its content.
func (w workspace) remove() { _ = sandbox.RemoveAll(w.dir) } // in the temporary directory

// binary returns the output path of the linker.
func (w workspace) binary() string { return filepath.Join(w.build, binaryName) }
