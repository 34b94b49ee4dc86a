package gotool

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"goless.io/builder/internal/program"
)

// A Plan is what the go command knows about programs without modules of their
// own, which is the same for all of them: it takes as long to find that out as to
// compile and to link. An image carries the answer.
type Plan struct {
	// Language is the version that the program is written in, such as "go1.26".
	Language string `json:"language"`

	// GODEBUG is the default of that variable in the program.
	GODEBUG string `json:"godebug"`

	// Modules is what the program can say about its modules, as the linker wants
	// it: a quoted string.
	Modules string `json:"modules"`

	// Packages are the files of all compiled packages that a function can import,
	// and of what those import, by import path. They are relative to GOCACHE.
	Packages map[string]string `json:"packages"`
}

// MakePlan asks the go command how it builds p, which imports everything that a
// function can.
func (t *Toolchain) MakePlan(ctx context.Context, p *program.Program) (*Plan, error) {
	out, err := t.list(ctx, p.Dir, "-json=DefaultGODEBUG,Module", ".")
	if err != nil {
		return nil, err
	}
	var main struct {
		DefaultGODEBUG string
		Module         struct{ GoVersion string }
	}
	if err := json.Unmarshal(out, &main); err != nil {
		return nil, fmt.Errorf("reading what the go command lists: %w", err)
	}
	plan := &Plan{Language: language(main.Module.GoVersion), GODEBUG: main.DefaultGODEBUG}
	link, err := t.link(ctx, p)
	if err != nil {
		return nil, err
	}
	plan.Modules = link.modules
	plan.Packages = map[string]string{}
	for path, file := range link.packages {
		// What is not in the cache is the program's own.
		if name, err := filepath.Rel(t.Cache, file); err == nil && filepath.IsLocal(name) && path != "main" && !isBelow(path, program.Module) {
			plan.Packages[path] = name
		}
	}
	return plan, nil
}

// link builds p by the go command and returns what the linker was told.
func (t *Toolchain) link(ctx context.Context, p *program.Program) (*linkConfig, error) {
	work, err := os.MkdirTemp("", "goless-work-")
	if err != nil {
		return nil, fmt.Errorf("making a directory for the linker: %w", err)
	}
	defer os.RemoveAll(work) //nolint:errcheck // it is below the temporary directory
	r, err := t.run(ctx, command{
		box:  sandbox{Open: true},
		dir:  p.Dir,
		env:  t.environ(work, t.Modules, false),
		args: t.args(Build{Program: p, Output: filepath.Join(work, "server"), Vet: true}),
	})
	if err != nil {
		return nil, fmt.Errorf("linking everything: %w: %w", err, t.explain(p, r))
	}
	return readLinkConfig(work)
}

// language makes the version of a language of the one in a go.mod file.
func language(version string) string {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return "go" + version
	}
	return "go" + parts[0] + "." + parts[1]
}

// isBelow reports whether path is that of module or of a package in it.
func isBelow(path, module string) bool {
	return path == module || strings.HasPrefix(path, module+"/")
}

// A linkConfig is what the go command tells the linker.
type linkConfig struct {
	packages map[string]string // files by import path
	modules  string            // a quoted string
}

// readLinkConfig finds the configuration of the linker below the work directory
// of a build that has kept it.
func readLinkConfig(work string) (*linkConfig, error) {
	found, err := filepath.Glob(filepath.Join(work, "go-build*", "b001", "importcfg.link"))
	if err != nil {
		return nil, err
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("looking for what the linker was told: %d files", len(found))
	}
	data, err := os.ReadFile(found[0])
	if err != nil {
		return nil, err
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

// readPlan reads what an earlier MakePlan has found out.
func readPlan(file string) (*Plan, error) {
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
