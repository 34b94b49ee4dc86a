// Package checkout owns the names, the folders and the ports of the one cluster
// that belongs to one checkout of the repository. All of them derive from the
// checkout's path, so that two checkouts on a machine never meet.
//
// It refuses to know what is kept in the folders and what listens on the ports.
package checkout

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
)

// marker is the file by which the root of a checkout is known.
const marker = "test/cluster/go.mod"

// Checkout is a checkout of the repository.
type Checkout struct {
	// Root is the absolute path of the checkout, free of symbolic links.
	Root string
}

// Find returns the checkout that dir lies in. It fails where neither dir nor a
// folder above it is the root of one.
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

// Name is the name of everything that the kernel keeps for the cluster: its
// network namespace and its cgroup.
func (c Checkout) Name() string {
	sum := sha256.Sum256([]byte(c.Root))
	return "goless-" + hex.EncodeToString(sum[:4])
}

// Source is the folder of the module that the cluster is built from.
func (c Checkout) Source() string { return filepath.Join(c.Root, "test", "cluster") }

// Tools is the folder of the commands that people and make call, kubectl among
// them.
func (c Checkout) Tools() string { return filepath.Join(c.Root, ".cache", "bin") }

// Cache is the folder of all that the cluster keeps.
func (c Checkout) Cache() string { return filepath.Join(c.Root, ".cache", "cluster") }

// Bin is the folder of the cluster's built parts. They outlive the cluster.
func (c Checkout) Bin() string { return filepath.Join(c.Cache(), "bin") }

// Blobs is the folder of the registry's layers. They outlive the cluster.
func (c Checkout) Blobs() string { return filepath.Join(c.Cache(), "blobs") }

// Logs is the folder with one log for each program, and the audit log. It stays
// to be read when the cluster is gone, and is emptied when the next one starts.
func (c Checkout) Logs() string { return filepath.Join(c.Cache(), "logs") }

// State is the folder of everything that ends with the cluster.
func (c Checkout) State() string { return filepath.Join(c.Cache(), "state") }

// Kubeconfig is the file by which kubectl finds the cluster from any shell.
func (c Checkout) Kubeconfig() string { return filepath.Join(c.Cache(), "kubeconfig") }

// Env is the file of export lines that a shell reads to use the cluster.
func (c Checkout) Env() string { return filepath.Join(c.Cache(), "env") }
