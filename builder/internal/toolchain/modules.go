package toolchain

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"goless.io/builder/internal/program"
)

// The directories of what a program depends on. They take the place of the caches of the
// toolchain, which are read-only.
const (
	dependenciesName = "dependencies"
	modulesName      = "modules"  // a GOMODCACHE
	packagesName     = "packages" // a GOCACHE
)

// KeptDependencies returns the directory in p where fetched modules go, and compiled
// packages below PackageCache if the build is to keep them.
func KeptDependencies(p *program.Program) string { return filepath.Join(p.Dir, dependenciesName) }

// ModuleCache returns the GOMODCACHE for a build of p. That is Modules, unless the
// toolchain is Sealed and p needs modules that Modules does not have: then p has a
// cache of its own, or that of Dependencies.
func (t *Toolchain) ModuleCache(p *program.Program) string {
	if t.Sealed && p.Fetches() {
		return filepath.Join(cmp.Or(t.Dependencies, KeptDependencies(p)), modulesName)
	}
	return t.Modules
}

// PackageCache returns where compiled packages are in a directory of dependencies, in the
// form of a GOCACHE.
func PackageCache(dependencies string) string { return filepath.Join(dependencies, packagesName) }

// WithoutDirect takes direct from the default of GOPROXY, and leaves alone what
// Network sets. With direct, whoever writes a go.mod could have the go command ask
// any host, whose answer may send it on to other ones.
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
