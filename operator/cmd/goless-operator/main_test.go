package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"goless.io/operator/internal/apiservertest"
)

// asOperator is the environment variable that makes the test binary run the operator.
const asOperator = "GOLESS_TEST_AS_OPERATOR"

var (
	environment *envtest.Environment
	cluster     client.Client
)

func TestMain(m *testing.M) {
	if os.Getenv(asOperator) != "" {
		main()
		return
	}
	apiservertest.Main(m, func(m *testing.M, started *envtest.Environment) int {
		environment = started
		var err error
		if cluster, err = client.New(started.Config, client.Options{}); err == nil {
			err = apiservertest.Install(context.Background(), cluster, nil, "00-namespace.yaml")
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "preparing the cluster:", err)
			return 1
		}
		return m.Run()
	})
}

// A replica is not ready without the RBAC permissions for its watches. With them and a certificate
// for the webhook it is ready, even if another replica is the leader, and it stops on a signal.
func TestNotReady(t *testing.T) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "goless-system", Name: leaseName}}
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: new("another"), LeaseDurationSeconds: new(int32(3600)), RenewTime: new(metav1.NowMicro())}
	if err := cluster.Create(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	candidate := startOperator(t)
	candidate.await(t, "/healthz", http.StatusOK)
	if body := candidate.await(t, "/readyz", http.StatusInternalServerError); !strings.Contains(body, "[-]caches failed") || !strings.Contains(body, "[-]certificate failed") {
		t.Errorf("/readyz returned %s", body)
	}
	for _, name := range []string{"20-rbac.yaml", "45-admission.yaml"} {
		if err := apiservertest.Install(t.Context(), cluster, nil, name); err != nil {
			t.Fatal(err)
		}
	}
	candidate.await(t, "/readyz", http.StatusOK)
	if err := candidate.end(t); err != nil {
		t.Errorf("the candidate exited with %v", err)
	}
}

// operator is a running operator process.
type operator struct {
	health string
	cmd    *exec.Cmd
}

// startOperator starts an operator with the account from deploy/20-rbac.yaml.
func startOperator(t *testing.T) *operator {
	t.Helper()
	user, err := environment.AddUser(envtest.User{Name: "system:serviceaccount:goless-system:goless-operator"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := user.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	// No outgoing connection uses this address, so the port stays free until the operator listens.
	listener, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close() //nolint:errcheck // no connections
	o := &operator{health: "http://" + address, cmd: exec.Command(os.Args[0],
		"--kubeconfig="+file, "--metrics-bind-address=0", "--health-probe-bind-address="+address, "--webhook-bind-address=127.0.0.1:0",
		"--leader-elect", "--leader-elect-namespace=goless-system")}
	o.cmd.Env = append(os.Environ(), asOperator+"=yes", "BUILDER_IMAGE=example/builder", "FUNCTION_IMAGE=example/launch")
	o.cmd.Stderr = t.Output()
	if err := o.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if o.cmd.ProcessState == nil {
			o.cmd.Process.Kill() //nolint:errcheck // the test has failed
			o.cmd.Wait()         //nolint:errcheck // killed
		}
	})
	return o
}

// await sends requests until the response has a status code, and returns the body.
func (o *operator) await(t *testing.T, path string, status int) string {
	t.Helper()
	var last error
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		response, err := http.Get(o.health + path)
		if err != nil {
			last = err
			continue
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close() //nolint:errcheck // read-only
		if response.StatusCode == status && err == nil {
			return string(body)
		}
		last = errors.Join(err, fmt.Errorf("%s: %s", response.Status, body))
	}
	t.Fatalf("%s does not return status %d: %v", path, status, last)
	return ""
}

// end stops the operator like the kubelet and returns the result.
func (o *operator) end(t *testing.T) error {
	t.Helper()
	if err := o.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- o.cmd.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(time.Minute):
		o.cmd.Process.Kill() //nolint:errcheck // the test has failed
		t.Fatal("the operator does not exit after SIGTERM")
		return nil
	}
}
