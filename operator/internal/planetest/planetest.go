// Package planetest owns the etcd and kube-apiserver of this module's tests, which
// are real. It refuses to know what is installed there.
package planetest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap/zapcore"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// Root is the root of the repository, seen from a package that is as deep as this.
var Root = filepath.Join("..", "..", "..")

// Main is what TestMain does: it starts an API server that knows Functions, and lets
// run say with which code the tests end. Where KUBEBUILDER_ASSETS does not promise
// one, and none is built, it says so and tests nothing.
func Main(m *testing.M, run func(*testing.M, *envtest.Environment) int) {
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" { // as make unit does
		var err error
		assets, err = filepath.Abs(filepath.Join(Root, ".cache", "assets")) // some tests run kubectl elsewhere
		if err == nil {
			_, err = os.Stat(filepath.Join(assets, "kube-apiserver"))
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "skipping the tests against a real API server: %v, make unit builds one\n", err)
			return
		}
	}
	os.Exit(start(m, assets, run))
}

func start(m *testing.M, assets string, run func(*testing.M, *envtest.Environment) int) int {
	ctrl.SetLogger(zap.New(zap.WriteTo(os.Stderr), zap.Level(zapcore.ErrorLevel)))
	environment := &envtest.Environment{
		BinaryAssetsDirectory:    assets,
		CRDDirectoryPaths:        []string{filepath.Join(Root, "deploy", "10-crd.yaml")},
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
