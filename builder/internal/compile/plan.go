package compile

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"go/version"
	"os"
	"path/filepath"
	"strings"

	"goless.io/builder/handler"
	"goless.io/builder/internal/diagnose"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/sandbox"
	"goless.io/builder/internal/toolchain"
)

// A Plan is what the go command determines before it compiles a program whose source has no go.mod.
// Making it takes as long as compiling and linking, so the builder image contains a precomputed Plan.
type Plan struct {
	// Language is the language version of the program, such as "go1.26".
	Language string `json:"language"`

	// GODEBUG is the default of this variable in the program.
	GODEBUG string `json:"godebug"`

	// Modules is the module information of a program in the form of the linker's modinfo, a quoted
	// string. TracingModules is that of programs that import goless.io/runtime/otlp, which have
	// more modules.
	Modules        string `json:"modules"`
	TracingModules string `json:"tracingModules"`

	// Packages are the files of all compiled packages that a function can import, of those that its
	// tests need, and of their dependencies, by import path. They are relative to GOCACHE.
	Packages map[string]string `json:"packages"`
}

// MakePlan runs the go command to find out how it builds p, which should import every package that
// a function can import, and have a test.
func MakePlan(ctx context.Context, t *toolchain.Toolchain, p *program.Program) (*Plan, error) {
	out, err := t.List(ctx, p.Dir, "-json=DefaultGODEBUG,Module", ".")
	if err != nil {
		return nil, err
	}
	var main struct {
		DefaultGODEBUG string
		Module         struct{ GoVersion string }
	}
	if err := json.Unmarshal(out, &main); err != nil {
		return nil, fmt.Errorf("reading the output of go list: %w", err)
	}
	plan := &Plan{Language: version.Lang("go" + main.Module.GoVersion), GODEBUG: main.DefaultGODEBUG}
	link, err := linkByGo(ctx, t, p, buildCommand, ".")
	if err != nil {
		return nil, err
	}
	plan.TracingModules = link.modules
	if plan.Modules, err = modulesOfPlain(ctx, t); err != nil {
		return nil, err
	}
	plan.Packages = map[string]string{}
	plan.addPackages(t, link)
	if tests, err := TestPackages(t, p); err == nil {
		link, err := linkByGo(ctx, t, p, testCommand, tests[0].ImportPath)
		if err != nil {
			return nil, err
		}
		plan.addPackages(t, link)
	}
	return plan, nil
}

// addPackages adds the linked packages that are in the cache. All others belong to the program.
func (p *Plan) addPackages(t *toolchain.Toolchain, link *linkConfig) {
	for path, file := range link.packages {
		if name, err := filepath.Rel(t.Cache, file); err == nil && filepath.IsLocal(name) && path != "main" && !strings.HasPrefix(path+"/", program.Module+"/") {
			p.Packages[path] = name
		}
	}
}

// modulesOfPlain returns the module information of a program whose function imports only the
// standard library.
func modulesOfPlain(ctx context.Context, t *toolchain.Toolchain) (string, error) {
	src, err := handler.Parse(handler.Filename, []byte("package plain\n\nimport \"net/http\"\n\nfunc Handler(http.ResponseWriter, *http.Request) {}\n"))
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "goless-plain-")
	if err != nil {
		return "", fmt.Errorf("creating a directory for a program: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is below the temporary directory
	p, err := program.Write(dir, src)
	if err != nil {
		return "", err
	}
	link, err := linkByGo(ctx, t, p, buildCommand, ".")
	if err != nil {
		return "", err
	}
	return link.modules, nil
}

// linkByGo builds a package of p with the go command and returns the configuration of the linker.
func linkByGo(ctx context.Context, t *toolchain.Toolchain, p *program.Program, command []string, pkg string) (*linkConfig, error) {
	work, err := newWorkspace()
	if err != nil {
		return nil, err
	}
	defer work.remove()
	r, err := sandbox.Run(ctx, sandbox.Command{
		Policy: sandbox.Policy{Open: true},
		Dir:    p.Dir,
		Env:    t.Environ(work.build, t.Modules, false),
		Args:   goArgs(t, Options{Program: p}, command, work.binary(), pkg),
	})
	if err != nil {
		return nil, fmt.Errorf("linking everything: %w: %w", err, diagnose.Explain(t, p, r, err))
	}
	return readLinkConfig(work.build)
}

// A linkConfig is the configuration that the go command passes to the linker.
type linkConfig struct {
	packages map[string]string // files by import path
	modules  string            // a quoted string
}

// maxLinkConfig is the maximum size of the linker's configuration, in bytes. It has a line for each
// package.
const maxLinkConfig = 16 << 20

// readLinkConfig reads the configuration of the linker from the directory of a build that kept it.
func readLinkConfig(dir string) (*linkConfig, error) {
	found, err := filepath.Glob(filepath.Join(dir, "go-build*"))
	if err != nil {
		return nil, err
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("reading the linker configuration: %d builds", len(found))
	}
	data, err := sandbox.ReadResult(dir, filepath.Join(filepath.Base(found[0]), "b001", "importcfg.link"), maxLinkConfig)
	if err != nil {
		return nil, fmt.Errorf("reading the linker configuration: %w", err)
	}
	config := &linkConfig{packages: map[string]string{}}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, len(data)+1)
	for lines.Scan() {
		verb, rest, _ := strings.Cut(lines.Text(), " ")
		switch verb {
		case "packagefile":
			path, file, _ := strings.Cut(rest, "=")
			config.packages[path] = file
		case "modinfo":
			config.modules = rest
		}
	}
	return config, lines.Err()
}

// ReadPlan reads a Plan from a JSON file.
func ReadPlan(file string) (*Plan, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	plan := new(Plan)
	if err := json.Unmarshal(data, plan); err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return plan, nil
}
