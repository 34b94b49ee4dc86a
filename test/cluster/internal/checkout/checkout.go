// Package checkout derives the names and the directories of a cluster from the path of the
// checkout to which it belongs, and chooses free ports. Two checkouts on a machine therefore do
// not conflict.
//
// The package does not know the contents of the directories or which programs use the ports.
package checkout

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
)

// marker is the file that identifies the root of a checkout.
const marker = "test/cluster/go.mod"

// Checkout is a checkout of the repository.
type Checkout struct {
	// Root is the absolute path of the checkout, without symbolic links.
	Root string
}

// Find returns the checkout that contains dir. It fails if dir is not in a checkout.
func Find(dir string) (Checkout, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return Checkout{}, err
	}
	root, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return Checkout{}, err
	}
	for {
		if _, err := os.Stat(filepath.Join(root, marker)); err == nil {
			return Checkout{Root: root}, nil
		}
		up := filepath.Dir(root)
		if up == root {
			return Checkout{}, fmt.Errorf("%s is outside of any checkout (no %s above it): change into one first", abs, marker)
		}
		root = up
	}
}

// Name returns the name of the kernel resources of the cluster: its network namespace and its
// cgroup.
func (c Checkout) Name() string {
	sum := sha256.Sum256([]byte(c.Root))
	return "goless-" + hex.EncodeToString(sum[:4])
}

// Source returns the directory of the module from which the cluster is built.
func (c Checkout) Source() string { return filepath.Join(c.Root, "test", "cluster") }

// Tools returns the directory of the commands for users and make, such as kubectl.
func (c Checkout) Tools() string { return filepath.Join(c.Root, ".cache", "bin") }

// Cache returns the directory of all files of the cluster.
func (c Checkout) Cache() string { return filepath.Join(c.Root, ".cache", "cluster") }

// Bin returns the directory of the compiled parts. They are kept when the cluster is stopped.
func (c Checkout) Bin() string { return filepath.Join(c.Cache(), "bin") }

// Blobs returns the directory of the registry's layers. They are kept when the cluster is
// stopped.
func (c Checkout) Blobs() string { return filepath.Join(c.Cache(), "blobs") }

// Logs returns the directory with one log per program, and the audit log. It is kept when the
// cluster is stopped, and emptied when the next one starts.
func (c Checkout) Logs() string { return filepath.Join(c.Cache(), "logs") }

// State returns the directory of all files that are removed with the cluster.
func (c Checkout) State() string { return filepath.Join(c.Cache(), "state") }

// Kubeconfig returns the path of the kubeconfig for kubectl on this machine.
func (c Checkout) Kubeconfig() string { return filepath.Join(c.Cache(), "kubeconfig") }

// Env returns the path of the script of export lines for users of the cluster.
func (c Checkout) Env() string { return filepath.Join(c.Cache(), "env") }
