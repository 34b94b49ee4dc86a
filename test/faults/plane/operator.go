package plane

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// BuildOperator compiles the operator of a repository to a file.
func BuildOperator(repo, path string) error {
	build := exec.Command("go", "build", "-tags", "fieldsv1string", "-o", path, "./cmd/goless-operator")
	build.Dir = filepath.Join(repo, "operator")
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("compiling the operator: %w\n%s", err, out)
	}
	return nil
}

// Operator is an operator that talks to a server, which is the API server itself
// if that is empty. It is not started. All operators of one name share a log.
func (p *Plane) Operator(binary, name, server string, flags ...string) (*Process, error) {
	token := ""
	if server == "" {
		server, token = p.server, p.tokens[Operator]
	}
	kubeconfig, err := p.kubeconfig(name, server, token)
	if err != nil {
		return nil, err
	}
	argv := []string{binary, "--kubeconfig=" + kubeconfig, "--metrics-bind-address=0", "--health-probe-bind-address=0"}
	return &Process{
		Name: name,
		Argv: append(argv, flags...),
		Env:  []string{"BUILDER_IMAGE=" + images + "goless.io/builder/cmd/builder", "FUNCTION_IMAGE=" + images + "goless.io/runtime/cmd/launch"},
		Log:  p.path(name + ".log"),
	}, nil
}

// Settings writes a file for the flag --config of operators.
func (p *Plane) Settings(text string) (file string, err error) {
	file = p.path("settings.yaml")
	return file, os.WriteFile(file, []byte(text), 0o600)
}

// Upstream is the URL of the API server, and the token by which it takes a
// request for one of the operator's.
func (p *Plane) Upstream() (server, token string) { return p.server, p.tokens[Operator] }
