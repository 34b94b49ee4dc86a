// Package apiservertest starts etcd and kube-apiserver for the tests of this module, with the
// CustomResourceDefinitions of Functions and triggers, and installs files of deploy/.
package apiservertest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/yaml"
)

// Root is the root of the repository, relative to a package at the depth of this one.
var Root = filepath.Join("..", "..", "..")

// Image replaces the images of cmd/deliver and cmd/consume in tests.
const Image = "registry.example/goless/deliver:1"

// Main implements TestMain: it starts an API server with the CustomResourceDefinitions of Functions
// and triggers, and of additional files (more). It exits with the code that run returns. The
// binaries are in KUBEBUILDER_ASSETS, or in .cache/assets by default.
func Main(m *testing.M, run func(*testing.M, *envtest.Environment) int, more ...string) {
	assets, err := filepath.Abs(cmp.Or(os.Getenv("KUBEBUILDER_ASSETS"), filepath.Join(Root, ".cache", "assets")))
	if err == nil {
		_, err = os.Stat(filepath.Join(assets, "kube-apiserver"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "there is no API server to test against, build one with: make assets:", err)
		os.Exit(1)
	}
	os.Exit(start(m, assets, run, more))
}

func start(m *testing.M, assets string, run func(*testing.M, *envtest.Environment) int, more []string) int {
	ctrl.SetLogger(zap.New(zap.WriteTo(os.Stderr), zap.Level(zapcore.ErrorLevel)))
	environment := &envtest.Environment{
		BinaryAssetsDirectory:    assets,
		CRDDirectoryPaths:        append(more, filepath.Join(Root, "deploy", "10-crd.yaml"), filepath.Join(Root, "deploy", "15-triggers-crd.yaml")),
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: 2 * time.Minute,
	}
	defer environment.Stop() //nolint:errcheck // what did not start cannot be stopped
	if _, err := environment.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "starting etcd and kube-apiserver:", err)
		return 1
	}
	return run(m, environment)
}

// Install creates the objects in files of deploy/. It replaces the references to images that ko
// builds with Image.
func Install(ctx context.Context, c client.Client, files ...string) error {
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(Root, "deploy", name))
		if err != nil {
			return err
		}
		for _, command := range []string{"deliver", "consume"} {
			text = bytes.ReplaceAll(text, []byte("ko://goless.io/trigger/cmd/"+command), []byte(Image))
		}
		for part := range bytes.SplitSeq(text, []byte("\n---\n")) {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal(part, &object.Object); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if err := c.Create(ctx, object); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}
