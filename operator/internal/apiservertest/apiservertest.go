// Package apiservertest starts a real etcd and kube-apiserver with the CustomResourceDefinitions of
// the operator, and installs files of deploy/. [EveryField] fills in a Function, to test how the
// API server normalizes it.
package apiservertest

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zapcore"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/yaml"
)

// Root is the path of the repository relative to the package under test.
var Root = root()

func root() string {
	dir := "."
	for range 10 {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			break
		}
		dir = filepath.Join("..", dir)
	}
	return dir
}

// Main implements TestMain: it starts an API server with the CustomResourceDefinitions, calls run,
// and exits with the code that run returns. The binaries are in the directory KUBEBUILDER_ASSETS,
// by default .cache/assets. If they do not exist, the tests fail with the command that builds them.
func Main(m *testing.M, run func(*testing.M, *envtest.Environment) int) {
	assets, err := assets()
	if err != nil {
		fmt.Fprintln(os.Stderr, "there is no API server to test against, build one with: make assets:", err)
		os.Exit(1)
	}
	os.Exit(start(m, assets, run))
}

// assets returns the directory of the binaries as an absolute path, because some tests run kubectl
// in another directory.
func assets() (string, error) {
	dir, err := filepath.Abs(cmp.Or(os.Getenv("KUBEBUILDER_ASSETS"), filepath.Join(Root, ".cache", "assets")))
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, "kube-apiserver"))
	}
	return dir, err
}

func start(m *testing.M, assets string, run func(*testing.M, *envtest.Environment) int) int {
	ctrl.SetLogger(zap.New(zap.WriteTo(os.Stderr), zap.Level(zapcore.ErrorLevel)))
	environment := &envtest.Environment{
		BinaryAssetsDirectory:    assets,
		CRDDirectoryPaths:        []string{filepath.Join(Root, "deploy", "10-crd.yaml")},
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: 2 * time.Minute,
	}
	// Services may have IPv4 and IPv6 addresses.
	environment.ControlPlane.GetAPIServer().Configure().Set("service-cluster-ip-range", "10.0.0.0/24,fd00::/108")
	defer environment.Stop() //nolint:errcheck // what did not start cannot be stopped
	if _, err := environment.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "starting etcd and kube-apiserver:", err)
		return 1
	}
	return run(m, environment)
}

// Images that Install sets instead of those that ko builds.
const (
	BuilderImage  = "example/builder:1"
	FunctionImage = "example/launch:1"
)

// Install creates the objects in files of deploy/. If edit is not nil, Install calls it for each
// object; edit may change the object, and returns false to omit it.
func Install(ctx context.Context, cluster client.Client, edit func(*unstructured.Unstructured) bool, files ...string) error {
	images := strings.NewReplacer("ko://goless.io/builder/cmd/builder", BuilderImage, "ko://goless.io/runtime/cmd/launch", FunctionImage)
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(Root, "deploy", filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		for part := range strings.SplitSeq(images.Replace(string(text)), "\n---\n") {
			object := &unstructured.Unstructured{}
			err := yaml.Unmarshal([]byte(part), &object.Object)
			if err == nil && (edit == nil || edit(object)) {
				err = cluster.Create(ctx, object)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// WithLocalServices is an edit function for [Install] that makes Services aliases of localhost, so
// that the API server can call webhooks: Services have no routing without nodes.
func WithLocalServices(object *unstructured.Unstructured) bool {
	if object.GetKind() == "Service" {
		object.Object["spec"] = map[string]any{"type": "ExternalName", "externalName": "localhost"}
	}
	return true
}

// Eventually waits until holds returns true, for at most three minutes.
func Eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out after 3m0s: %s", what)
		}
	}
}

// NewNamespace creates a namespace for a test and returns its name.
func NewNamespace(t *testing.T, cluster client.Client) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := cluster.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	return namespace.Name
}
