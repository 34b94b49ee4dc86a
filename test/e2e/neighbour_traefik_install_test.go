package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// traefikNamespace is the namespace of Traefik.
const traefikNamespace = "goless-e2e-traefik"

// installTraefik runs Traefik until the test ends, with a certificate for its Gateway. It installs
// the Gateway API for that time if necessary.
func installTraefik(t *testing.T) {
	t.Helper()
	if !gatewayAPI(t.Context()) {
		installGatewayAPI(t)
	}
	dir := t.TempDir()
	image, digest, _ := strings.Cut(neighbourImage(t, "IMAGE_TRAEFIK"), "@")
	documented := filepath.Join("docs", "content", "reference", "dynamic-configuration")
	for _, path := range []string{
		neighbourManifest(t, filepath.Join(documented, "kubernetes-gateway-rbac.yml")),
		neighbourManifest(t, filepath.Join(documented, "kubernetes-gateway-traefik-lb-svc.yml")),
		neighbourManifest(t, filepath.Join(documented, "kubernetes-crd-rbac.yml")),
		"testdata/traefik/kustomization.yaml", "testdata/traefik/objects.yaml",
	} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text = []byte(strings.Replace(string(text), "newName: TRAEFIK_IMAGE", "newName: "+image+"\n    digest: "+digest, 1))
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(path)), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	deleteAtEnd(t, "-k", dir)
	if _, err := kubectl(t.Context(), "apply", "-k", dir); err != nil {
		t.Fatal(err)
	}
	certificate, key := exampleCertificate(t)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: traefikNamespace, Name: "certificate"}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key},
	}
	if err := cluster.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"rollout", "status", "deployment/traefik", "--timeout=" + patience.String()},
		{"wait", "gateway/open", "--for=condition=Programmed", "--timeout=" + patience.String()},
	} {
		if _, err := kubectl(t.Context(), append([]string{"-n", traefikNamespace}, args...)...); err != nil {
			t.Fatal(err)
		}
	}
}

// installGatewayAPI installs the Gateway API from its module.
func installGatewayAPI(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", "sigs.k8s.io/gateway-api")
	cmd.Dir = filepath.Join(repo, "trigger") // it requires the module
	out, err := cmd.Output()
	var module struct{ Dir string }
	if err == nil {
		err = json.Unmarshal(out, &module)
	}
	if err != nil {
		t.Fatal("downloading the CustomResourceDefinitions of the Gateway API: ", err)
	}
	crds := filepath.Join(module.Dir, "config", "crd", "standard")
	deleteAtEnd(t, "-f", crds)
	if _, err := kubectl(t.Context(), "apply", "--server-side", "-f", crds); err != nil {
		t.Fatal(err)
	}
	if _, err := kubectl(t.Context(), "wait", "crd/httproutes.gateway.networking.k8s.io", "--for=condition=Established", "--timeout="+patience.String()); err != nil {
		t.Fatal(err)
	}
}
