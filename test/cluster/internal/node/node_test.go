package node_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"goless.io/test/cluster/internal/cell"
	"goless.io/test/cluster/internal/checkout"
	"goless.io/test/cluster/internal/node"
)

func prepare(t *testing.T) node.Node {
	t.Helper()
	n := node.Node{
		Checkout: checkout.Checkout{Root: t.TempDir()},
		Ports:    checkout.Ports{API: 20001, Registry: 20002},
		CNI:      "/usr/lib/cni",
		Runc:     "/usr/sbin/runc",
	}
	if err := n.Prepare(); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestFilesExist checks every path in the arguments of programs and in configuration files.
func TestFilesExist(t *testing.T) {
	n := prepare(t)
	daemons, err := n.Daemons(&cell.Net{})
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, d := range daemons {
		words = append(words, d.Argv...)
	}
	for _, name := range []string{"containerd.toml", "kubelet.yaml", "Corefile"} {
		text, err := os.ReadFile(filepath.Join(n.Etc(), name))
		if err != nil {
			t.Fatal(err)
		}
		words = append(words, string(text))
	}
	path := regexp.MustCompile(regexp.QuoteMeta(n.Etc()) + `[\w./-]*`)
	found := path.FindAllString(strings.Join(words, "\n"), -1)
	if len(found) < len(daemons) {
		t.Fatalf("found only %q", found)
	}
	for _, file := range found {
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	}
}

func TestDaemonsNeedOnlyEarlierOnes(t *testing.T) {
	daemons, err := prepare(t).Daemons(&cell.Net{})
	if err != nil {
		t.Fatal(err)
	}
	known := make(map[string]bool)
	for _, d := range daemons {
		for _, need := range d.Needs {
			if !known[need] {
				t.Errorf("%s depends on %s, which is not started before it", d.Name, need)
			}
		}
		known[d.Name] = true
	}
}

func TestPodNetworkIsJSON(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(prepare(t).Etc(), "cni", "pods.conflist"))
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(text) {
		t.Errorf("not JSON:\n%s", text)
	}
}

func TestKeysAreSecret(t *testing.T) {
	n := prepare(t)
	keys, err := filepath.Glob(filepath.Join(n.Etc(), "*.k[eu]*")) // .key and .kubeconfig
	if err != nil || len(keys) == 0 {
		t.Fatalf("no keys: %v", err)
	}
	for _, file := range keys {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", file, info.Mode().Perm())
		}
	}
}

func TestAdminTrustsTheAPIServer(t *testing.T) {
	config, err := prepare(t).TLSConfig()
	if err != nil {
		t.Fatal(err)
	}
	if len(config.Certificates) != 1 || config.RootCAs == nil {
		t.Errorf("TLS configuration has %d certificates, roots %v", len(config.Certificates), config.RootCAs)
	}
}
