package plane

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Racing reports whether the C compiler for the race detector is available.
func Racing() bool {
	_, err := exec.LookPath("gcc")
	return err == nil
}

// BuildOperator compiles the operator of a repository to a file, optionally with the race
// detector.
func BuildOperator(repo, path string, race bool) error {
	build := exec.Command("go", "build", fmt.Sprintf("-race=%t", race), "-o", path, "./cmd/goless-operator")
	build.Dir = filepath.Join(repo, "operator")
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("compiling the operator: %w\n%s", err, out)
	}
	return nil
}

// Operator returns an operator, not started, that connects to a server. If server is empty,
// that is the API server. All operators with the same name share a log.
func (p *Plane) Operator(binary, name, server string, flags ...string) (*Process, error) {
	token := ""
	if server == "" {
		server, token = p.server, p.tokens[Operator]
	}
	kubeconfig, err := p.kubeconfig(name, server, token)
	if err != nil {
		return nil, err
	}
	argv := []string{binary, "--kubeconfig=" + kubeconfig, "--metrics-bind-address=0", "--health-probe-bind-address=0", "--leader-elect-namespace=goless-system"}
	return &Process{
		Name: name,
		Argv: append(argv, flags...),
		Env:  []string{"BUILDER_IMAGE=" + images + "goless.io/builder/cmd/builder", "FUNCTION_IMAGE=" + images + "goless.io/runtime/cmd/launch"},
		Log:  p.path(name + ".log"),
	}, nil
}

// InPod are settings of an operator without a build service: pods compile.
const InPod = "apiVersion: config.goless.io/v1beta1\nkind: OperatorConfiguration\nbuild:\n  strategy: InPod\n"

// Settings writes a file for the operator's flag --config.
func (p *Plane) Settings(text string) (file string, err error) {
	file = p.path("settings.yaml")
	return file, os.WriteFile(file, []byte(text), 0o600)
}

// Upstream returns the URL of the API server, and the token of the operator's account.
func (p *Plane) Upstream() (server, token string) { return p.server, p.tokens[Operator] }
