package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// repo is the root of the repository.
var repo = filepath.Join("..", "..")

// patience limits how long a script waits.
const patience = 5 * time.Minute

// Configuration of the scripts.
var (
	programs   string // the directory of builder and kubectl-goless
	assets     string // that of kubectl
	kubeconfig []byte
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	ctrl.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	if assets, err = filepath.Abs(cmp.Or(os.Getenv("KUBEBUILDER_ASSETS"), filepath.Join(repo, ".cache", "assets"))); err != nil {
		return 0, err
	}
	if programs, err = os.MkdirTemp("", "goless-cli-"); err != nil {
		return 0, err
	}
	defer os.RemoveAll(programs) //nolint:errcheck // it is below the temporary directory
	if err := buildBuilder(); err != nil {
		return 0, err
	}
	environment := &envtest.Environment{
		BinaryAssetsDirectory:    assets,
		CRDDirectoryPaths:        []string{filepath.Join(repo, "deploy", "10-crd.yaml")},
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: 2 * time.Minute,
	}
	defer func() { err = errors.Join(err, environment.Stop()) }()
	if _, err := environment.Start(); err != nil {
		return 0, fmt.Errorf("starting an API server, make assets builds it: %w", err)
	}
	kubeconfig = environment.KubeConfig
	return m.Run(), nil
}

func buildBuilder() error {
	path := filepath.Join(programs, "builder")
	cmd := exec.Command("go", "build", "-o", path, "./cmd/builder")
	cmd.Dir, cmd.Env = filepath.Join(repo, "builder"), append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compiling the builder: %w\n%s", err, out)
	}
	return os.Symlink(path, filepath.Join(programs, "kubectl-goless"))
}

// TestScripts runs each script in a namespace with its name.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"await": await, "pod": servePod, "kubelet": serveKubelet,
		},
		Setup: func(e *testscript.Env) error {
			file := filepath.Join(e.WorkDir, "kubeconfig")
			if err := os.WriteFile(file, kubeconfig, 0o600); err != nil {
				return err
			}
			namespace := filepath.Base(e.WorkDir)
			e.Setenv("PATH", programs+string(filepath.ListSeparator)+assets+string(filepath.ListSeparator)+e.Getenv("PATH"))
			e.Setenv("KUBECONFIG", file)
			e.Setenv("NS", namespace)
			out, err := exec.Command(filepath.Join(assets, "kubectl"), "--kubeconfig="+file, "create", "namespace", namespace).CombinedOutput()
			if err != nil {
				return fmt.Errorf("making a namespace: %w: %s", err, out)
			}
			return nil
		},
	})
}
