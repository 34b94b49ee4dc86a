package modproxy

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/mod/module"
)

// AddPinned adds the modules in the go.sum of the module in dir. The go command of
// the machine fetches what its module cache lacks.
func (p *Proxy) AddPinned(ctx context.Context, dir string) error {
	cmd := exec.CommandContext(ctx, "go", "mod", "download")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("fetching the modules of %s, for which the go command needs a module proxy (go env GOPROXY): %w\n%s", dir, err, out)
	}
	cache, err := moduleCache(ctx)
	if err != nil {
		return err
	}
	sums, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(sums)) {
		if err := p.addSum(cache, line); err != nil {
			return err
		}
	}
	return nil
}

// moduleCache returns where the go command keeps what it has downloaded.
func moduleCache(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMODCACHE").Output()
	if err != nil {
		return "", fmt.Errorf("asking the go command for its module cache: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "cache", "download"), nil
}

// addSum adds what a line of a go.sum is about.
func (p *Proxy) addSum(cache, line string) error {
	fields := strings.Fields(line)
	if len(fields) != 3 {
		return nil
	}
	version, onlyMod := strings.CutSuffix(fields[1], "/go.mod")
	escaped, err := module.EscapePath(fields[0])
	if err != nil {
		return err
	}
	m := module.Version{Path: fields[0], Version: version}
	name := filepath.Join(cache, escaped, "@v", version)
	p.add(m, func(f *files) {
		f.mod = fromFile(name + ".mod")
		if !onlyMod {
			f.zip = fromFile(name + ".zip")
		}
	})
	return nil
}
