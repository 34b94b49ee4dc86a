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
	"goless.io/test/cluster/internal/supervise"
)

// prepare returns the nodes of a cluster, with all files.
func prepare(t *testing.T) (first, second node.Node) {
	t.Helper()
	first = node.Node{
		Checkout:   checkout.Checkout{Root: t.TempDir()},
		Ports:      checkout.Ports{API: 20001, Registry: 20002},
		Number:     1,
		Kubernetes: "kubernetes",
		CNI:        "/usr/lib/cni",
		Runc:       "/usr/sbin/runc",
	}
	second = first
	second.Number = 2
	if err := node.Prepare([]node.Node{first, second}); err != nil {
		t.Fatal(err)
	}
	return first, second
}

// TestFilesExist checks every path in the arguments of programs and in configuration files.
func TestFilesExist(t *testing.T) {
	first, second := prepare(t)
	daemons, err := first.Daemons(&cell.Net{})
	if err != nil {
		t.Fatal(err)
	}
	wantFiles(t, first, daemons, "containerd.toml", "kubelet.yaml", "Corefile")
	wantFiles(t, second, second.WorkerDaemons(), "containerd.toml", "kubelet.yaml")
}

func wantFiles(t *testing.T, n node.Node, daemons []supervise.Daemon, configs ...string) {
	t.Helper()
	var words []string
	for _, d := range daemons {
		words = append(words, d.Argv...)
	}
	for _, name := range configs {
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

// TestNodesDiffer checks that two nodes share no name, address or directory.
func TestNodesDiffer(t *testing.T) {
	first, second := prepare(t)
	of := func(n node.Node) []string {
		return []string{n.Name(), n.Cell(), n.Addr(), n.PodCIDR(), n.State(), n.Logs()}
	}
	for i, value := range of(first) {
		if other := of(second)[i]; other == value {
			t.Errorf("both nodes have %s", value)
		}
	}
	if first.Addr() != node.IP {
		t.Errorf("address of the first node = %s, want %s", first.Addr(), node.IP)
	}
	kubeconfig, err := os.ReadFile(second.Kubeconfig("kubelet"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "server: https://" + node.IP + ":20001"; !strings.Contains(string(kubeconfig), want) {
		t.Errorf("kubeconfig of the second node has no %q", want)
	}
}

func TestDaemonsNeedOnlyEarlierOnes(t *testing.T) {
	first, _ := prepare(t)
	daemons, err := first.Daemons(&cell.Net{})
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
	first, _ := prepare(t)
	text, err := os.ReadFile(filepath.Join(first.Etc(), "cni", "pods.conflist"))
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(text) {
		t.Errorf("not JSON:\n%s", text)
	}
}

func TestKeysAreSecret(t *testing.T) {
	n, _ := prepare(t)
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
	first, _ := prepare(t)
	config, err := first.TLSConfig()
	if err != nil {
		t.Fatal(err)
	}
	if len(config.Certificates) != 1 || config.RootCAs == nil {
		t.Errorf("TLS configuration has %d certificates, roots %v", len(config.Certificates), config.RootCAs)
	}
}
