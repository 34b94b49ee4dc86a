package install

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// The API server accepts the current deploy/ as an update of the last release, and vice versa,
// with the Functions of that release: no object of deploy/ has an immutable change, and no new
// field changes a Function. TestUpgrade checks that the operator does not change them either.
func TestUpgradeApplies(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS is not set to a directory with etcd, kube-apiserver and kubectl; make unit-api sets it")
	}
	_, deploy := former(t)
	environment := &envtest.Environment{ControlPlaneStartTimeout: patience}
	if _, err := environment.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Error(err)
		}
	})
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, environment.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", kubeconfig)
	t.Setenv("PATH", os.Getenv("KUBEBUILDER_ASSETS")+string(os.PathListSeparator)+os.Getenv("PATH"))

	c := &cluster{T: t, system: "goless-system"}
	c.kubectl("", "apply", "-f", deploy)
	c.kubectl("", "wait", "--for=condition=Established", "--timeout="+patience.String(), "crd", "--all")
	c.kubectl("", "create", "namespace", apart)
	c.kubectl(functions, "apply", "-f", "-")
	before := c.kubectl("", "-n", apart, "get", "functions", "-o", "jsonpath={.items[*].spec}")

	out := c.kubectl("", "apply", "-f", filepath.Join(root, "deploy"))
	if strings.Contains(out, "Warning:") {
		t.Errorf("kubectl apply warns:\n%s", out)
	}
	c.kubectl("", "wait", "--for=condition=Established", "--timeout="+patience.String(), "crd", "--all")
	after := c.kubectl("", "-n", apart, "get", "functions", "-o", "jsonpath={.items[*].spec}")
	// The only field that was added with a default. It does not affect pods.
	if after = strings.ReplaceAll(after, `"revisionHistoryLimit":5,`, ""); after != before {
		t.Errorf("the Functions were\n%s\nand are\n%s", before, after)
	}
	if out := c.kubectl(functions, "apply", "-f", "-"); strings.Contains(out, "configured") {
		t.Errorf("applying the Functions again changes them:\n%s", out)
	}

	c.kubectl("", "apply", "-f", deploy)
	c.until("the Functions are what they were, since the last release is applied again", func() (string, bool) {
		back := c.kubectl("", "-n", apart, "get", "functions", "-o", "jsonpath={.items[*].spec}")
		return back, back == before
	})
}
