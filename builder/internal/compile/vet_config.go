package compile

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"goless.io/builder/handler"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/toolchain"
)

// vetCommands writes the configurations to files and returns the commands that read them, encoded
// for commandsMode.
func vetCommands(t *toolchain.Toolchain, configs []vetConfig) ([]byte, error) {
	commands := make([][]string, 0, len(configs))
	for _, c := range configs {
		encoded, err := json.Marshal(c)
		if err != nil {
			return nil, err
		}
		file := c.VetxOutput + ".cfg"
		if err := os.WriteFile(file, encoded, 0o600); err != nil {
			return nil, fmt.Errorf("writing the configuration of go vet: %w", err)
		}
		commands = append(commands, []string{t.Tool("vet"), "-json", file})
	}
	return json.Marshal(commands)
}

// A vetConfig describes a package and its imports to the vet command. It has the required fields of
// golang.org/x/tools/go/analysis/unitchecker.Config.
type vetConfig struct {
	ID, Compiler, ImportPath string
	GoVersion                string            // language version, such as "go1.26"; empty for the newest
	GoFiles                  []string          // absolute
	ImportMap                map[string]string // from import paths in the source to those in PackageFile
	PackageFile              map[string]string // compiled packages, by import path
	PackageVetx              map[string]string // the VetxOutput of imported packages, by import path
	VetxOutput               string            // receives the facts for importers
	Stdout                   string            // receives the findings
}

// vetConfigs returns the configurations of those of the author's packages that are part of the
// binary. A package follows the packages that it imports. The commands write their output to dir.
func vetConfigs(t *toolchain.Toolchain, p *program.Program, dir string, exports map[string]string) ([]vetConfig, error) {
	packages, err := authorPackages(t, authorDirs(p), slices.Sorted(maps.Keys(exports)))
	if err != nil {
		return nil, err
	}
	var configs []vetConfig
	facts := map[string]string{}
	for i, pkg := range packages {
		output := filepath.Join(dir, strconv.Itoa(i))
		c := vetConfig{
			ID: pkg.ImportPath, Compiler: "gc", ImportPath: pkg.ImportPath, GoVersion: goVersion(p.Source),
			ImportMap: map[string]string{}, PackageFile: map[string]string{}, PackageVetx: map[string]string{},
			VetxOutput: output, Stdout: output + ".json",
		}
		facts[pkg.ImportPath] = output
		for _, name := range pkg.GoFiles {
			c.GoFiles = append(c.GoFiles, filepath.Join(pkg.Dir, name))
		}
		for _, imported := range pkg.Imports {
			c.ImportMap[imported] = imported
			c.PackageFile[imported] = exports[imported]
			if file, ok := facts[imported]; ok {
				c.PackageVetx[imported] = file
			}
		}
		configs = append(configs, c)
	}
	return configs, nil
}

// goVersion returns the Go version of the author's go.mod, such as "go1.26". It returns "" if there is
// no go.mod.
func goVersion(src *handler.Source) string {
	switch {
	case src.GoMod == nil:
		return ""
	case src.GoMod.Go == nil:
		return "go1.16" // https://go.dev/ref/mod#go-mod-file-go
	}
	return "go" + src.GoMod.Go.Version
}
