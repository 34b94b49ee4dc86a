package compile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"goless.io/builder/internal/gocache"
	"goless.io/builder/internal/sandbox"
	"goless.io/builder/internal/toolchain"
)

// shareCaches lets the go command use the packages that an earlier build compiled, and keep what it
// compiles for later builds. Without it, the command has only the read-only cache of the image.
func shareCaches(t *toolchain.Toolchain, b Options, work workspace, c *sandbox.Command) error {
	// Several go commands would otherwise compile the same modules.
	several := b.tests && t.Sealed && b.Program.Source.GoMod != nil
	if !b.KeepPackages && t.Dependencies == "" && !several {
		return nil
	}
	own := filepath.Join(work.dir, "packages")
	if b.KeepPackages {
		kept := toolchain.KeptDependencies(b.Program)
		if err := os.Mkdir(kept, 0o700); err != nil && !errors.Is(err, fs.ErrExist) { // it exists if modules were fetched
			return fmt.Errorf("creating a build cache: %w", err)
		}
		if err := checkDir(kept); err != nil {
			return err
		}
		own = toolchain.PackageCache(kept)
	}
	// The compiler may write to this directory, so it must be new and not a link.
	if err := os.Mkdir(own, 0o700); err != nil {
		return fmt.Errorf("creating a build cache: %w", err)
	}
	read := []string{t.Cache}
	if t.Dependencies != "" {
		read = []string{toolchain.PackageCache(t.Dependencies), t.Cache}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	setting, err := gocache.Setting(work.dir, own, read...)
	if err != nil {
		return err
	}
	c.Env = append(c.Env, "GOCACHEPROG="+setting)
	c.Policy.Files = append(c.Policy.Files, self)
	c.Policy.Read = append(c.Policy.Read, work.dir) // contains the link to self
	c.Policy.Write = append(c.Policy.Write, own)
	if t.Dependencies != "" {
		c.Policy.Read = append(c.Policy.Read, t.Dependencies)
	}
	return nil
}

// checkDir returns an error if the path is not a directory, such as a link to one.
func checkDir(path string) error {
	info, err := os.Lstat(path)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory but %s", path, info.Mode().Type())
	}
	if err != nil {
		return fmt.Errorf("creating a build cache: %w", err)
	}
	return nil
}
