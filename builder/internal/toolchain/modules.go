package toolchain

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"goless.io/builder/internal/program"
)

// Directories for the dependencies of a program. They replace the caches of the toolchain, which
// are read-only.
const (
	dependenciesName = "dependencies"
	modulesName      = "modules"  // a GOMODCACHE
	packagesName     = "packages" // a GOCACHE
)

// KeptDependencies returns the directory in p for fetched modules, and for compiled packages (see
// PackageCache) if the build keeps them.
func KeptDependencies(p *program.Program) string { return filepath.Join(p.Dir, dependenciesName) }

// ModuleCache returns the GOMODCACHE for a build of p. If the toolchain is Sealed and p needs
// modules that Modules does not contain, it is a cache in Dependencies, or in p if Dependencies is
// empty. Otherwise it is Modules.
func (t *Toolchain) ModuleCache(p *program.Program) string {
	if t.Sealed && p.Fetches() {
		return filepath.Join(cmp.Or(t.Dependencies, KeptDependencies(p)), modulesName)
	}
	return t.Modules
}

// PackageCache returns the directory for compiled packages in a directory of dependencies. It has
// the form of a GOCACHE.
func PackageCache(dependencies string) string { return filepath.Join(dependencies, packagesName) }

// WithoutDirect removes direct from the default of GOPROXY. It does not change a value that is set
// in Network. With direct, the author of a go.mod could make the go command connect to any host,
// which could redirect it to others.
func (t *Toolchain) WithoutDirect() error {
	if t.Setting("GOPROXY") != "" {
		return nil
	}
	data, err := os.ReadFile(filepath.Join(t.Root, "go.env"))
	if err != nil {
		return fmt.Errorf("reading the defaults of the toolchain: %w", err)
	}
	proxies := Lookup(strings.Split(string(data), "\n"), "GOPROXY")
	for _, separator := range []string{",", "|"} {
		proxies = strings.TrimSuffix(proxies, separator+"direct")
	}
	if proxies == "" || strings.Contains(proxies, "direct") {
		proxies = "off"
	}
	t.Network = append(t.Network, "GOPROXY="+proxies)
	return nil
}
