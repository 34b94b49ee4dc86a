package parts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"goless.io/test/cluster/internal/checkout"
	"goless.io/test/cluster/internal/progress"
)

// heartbeat is the interval of progress messages of a long build.
const heartbeat = 20 * time.Second

// Build builds the programs that a cluster with this version of Kubernetes requires and that are out
// of date. kubectl is always that of the default version. It requires go in PATH.
func Build(ctx context.Context, c checkout.Checkout, kubernetes string, say *progress.Printer) error {
	out, err := exec.CommandContext(ctx, "go", "env", "GOVERSION").Output()
	if err != nil {
		return fmt.Errorf("run go: %w: install Go, see go.mod for the version", err)
	}
	goVersion := strings.TrimSpace(string(out))
	for _, p := range all {
		if p.kubernetes != "" && p.kubernetes != kubernetes {
			continue
		}
		key, err := p.key(c.Source(), goVersion)
		if err != nil {
			return err
		}
		if p.isCurrent(c.Bin(), key) {
			continue
		}
		if err := p.build(ctx, c, say); err != nil {
			return fmt.Errorf("build %s: %w", p.name, err)
		}
		if err := os.WriteFile(p.keyFile(c.Bin()), []byte(key), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// isCurrent reports whether the part was built from the inputs of key.
func (p part) isCurrent(bin, key string) bool {
	built, err := os.ReadFile(p.keyFile(bin))
	if err != nil || string(built) != key {
		return false
	}
	for _, program := range p.programs() {
		if _, err := os.Stat(filepath.Join(bin, program)); err != nil {
			return false
		}
	}
	return true
}

func (p part) keyFile(bin string) string { return filepath.Join(bin, "."+p.programs()[0]+".key") }

// build builds to a temporary directory first. Programs of a running cluster are replaced, not
// overwritten.
func (p part) build(ctx context.Context, c checkout.Checkout, say *progress.Printer) error {
	fresh := filepath.Join(c.Bin(), "new")
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	defer os.RemoveAll(fresh) //nolint:errcheck // the next build removes it
	if err := os.MkdirAll(fresh, 0o755); err != nil {
		return err
	}
	version, err := p.version(ctx, c)
	if err != nil {
		return err
	}
	label := strings.TrimSpace(p.name + " " + version)
	say.Say("building %s (%s the first time) ...", label, p.cost)
	stop := say.Every(heartbeat, func() string { return "still building " + label })
	err = run(p.command(ctx, c, version, fresh))
	stop()
	if err != nil {
		return err
	}
	for _, program := range p.programs() {
		if err := os.Rename(filepath.Join(fresh, program), filepath.Join(c.Bin(), program)); err != nil {
			return err
		}
	}
	return nil
}

// command returns the go command that builds the part to the directory out.
func (p part) command(ctx context.Context, c checkout.Checkout, version, out string) *exec.Cmd {
	args := []string{"-trimpath", "-ldflags=" + p.ldflags(version)}
	var command *exec.Cmd
	if p.published != nil {
		command = exec.CommandContext(ctx, "go", append(append([]string{"install"}, args...), p.published...)...)
	} else {
		command = exec.CommandContext(ctx, "go", append(append([]string{"build"}, args...), "-o", out+"/", ".")...)
		command.Dir = filepath.Join(c.Source(), p.dir)
	}
	command.Env = append(os.Environ(), "GOBIN="+out, "GOWORK=off", "CGO_ENABLED=0")
	return command
}

// ldflags removes debug information and sets the version of Kubernetes, without which kubectl
// rejects the server.
func (p part) ldflags(version string) string {
	flags := []string{"-s", "-w"}
	if p.main == kubernetesModule {
		number := strings.Split(strings.TrimPrefix(version, "v"), ".")
		const variable = "-X k8s.io/component-base/version."
		flags = append(flags, variable+"gitVersion="+version, variable+"gitMajor="+number[0], variable+"gitMinor="+number[1])
	}
	return strings.Join(flags, " ")
}

// version returns the version in the part's go.mod, or of its published packages.
func (p part) version(ctx context.Context, c checkout.Checkout) (string, error) {
	switch {
	case p.published != nil:
		_, version, _ := strings.Cut(p.published[0], "@")
		return version, nil
	case p.main == "":
		return "", nil
	}
	command := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", p.main)
	command.Dir = filepath.Join(c.Source(), p.dir)
	command.Env = append(os.Environ(), "GOWORK=off")
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("version of %s: %w", p.main, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// run runs the command. Its error contains the output.
func run(command *exec.Cmd) error {
	out, err := command.CombinedOutput()
	if err != nil {
		return errors.Join(err, errors.New(strings.TrimSpace(string(out))))
	}
	return nil
}

// LinkKubectl links kubectl to the program that contains it.
func LinkKubectl(c checkout.Checkout) error {
	link := filepath.Join(c.Tools(), "kubectl")
	target, err := filepath.Rel(c.Tools(), filepath.Join(c.Bin(), "kubernetes"))
	if err != nil {
		return err
	}
	if now, err := os.Readlink(link); err == nil && now == target {
		return nil
	}
	if err := os.MkdirAll(c.Tools(), 0o755); err != nil {
		return err
	}
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(target, link)
}
