package compile

import (
	"fmt"
	"os"
	"path/filepath"

	"goless.io/builder/internal/gocache"
	"goless.io/builder/internal/sandbox"
	"goless.io/builder/internal/toolchain"
)

// shareCaches lets the go command find what an earlier build has compiled, and leave what
// it compiles for later ones. Otherwise the command has the cache of the image alone, which
// is read-only.
func shareCaches(t *toolchain.Toolchain, b Options, work string, c *sandbox.Command) error {
	if !b.KeepPackages && t.Dependencies == "" {
		return nil
	}
	own := filepath.Join(work, "packages")
	if b.KeepPackages {
		own = toolchain.PackageCache(toolchain.KeptDependencies(b.Program))
	}
	read := []string{t.Cache}
	if t.Dependencies != "" {
		read = []string{toolchain.PackageCache(t.Dependencies), t.Cache}
	}
	if err := os.MkdirAll(own, 0o700); err != nil {
		return fmt.Errorf("making a build cache: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	setting, err := gocache.Setting(work, own, read...)
	if err != nil {
		return err
	}
	c.Env = append(c.Env, "GOCACHEPROG="+setting)
	c.Policy.Files = append(c.Policy.Files, self)
	c.Policy.Write = append(c.Policy.Write, own)
	if t.Dependencies != "" {
		c.Policy.Read = append(c.Policy.Read, t.Dependencies)
	}
	return nil
}
