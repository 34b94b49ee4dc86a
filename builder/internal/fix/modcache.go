package fix

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/mod/modfile"
)

// fillCache fills the directory to with the downloaded modules that the go.mod of the working
// directory requires. Package imports searches a whole module cache regardless of the go.mod, and
// prefers the shortest path.
func fillCache(ctx context.Context, to string) error {
	var env struct{ GOMOD, GOMODCACHE string }
	out, err := exec.CommandContext(ctx, "go", "env", "-json", "GOMOD", "GOMODCACHE").Output()
	if err == nil {
		err = json.Unmarshal(out, &env)
	}
	if err != nil {
		return fmt.Errorf("asking the go command for its environment: %w", err)
	}
	data, err := os.ReadFile(env.GOMOD)
	if err != nil {
		return err
	}
	mod, err := modfile.ParseLax("go.mod", data, nil)
	if err != nil {
		return nil //nolint:nilerr // package imports reports it
	}
	dirs, err := moduleDirs(ctx, to, data)
	if err != nil {
		return err
	}
	for _, r := range mod.Require {
		name, err := filepath.Rel(env.GOMODCACHE, dirs[r.Mod.Path])
		if dirs[r.Mod.Path] == "" || err != nil || !filepath.IsLocal(name) {
			continue // not downloaded, or replaced by a directory
		}
		if err := share(dirs[r.Mod.Path], filepath.Join(to, name)); err != nil {
			return err
		}
	}
	downloads := filepath.Join(env.GOMODCACHE, "cache")
	if _, err := os.Stat(downloads); err != nil {
		return nil //nolint:nilerr // nothing was downloaded
	}
	return share(downloads, filepath.Join(to, "cache"))
}

// moduleDirs returns the directories of the modules of the working directory, by path. mod is its
// go.mod. It uses a copy in the directory work, because checksums may be missing.
func moduleDirs(ctx context.Context, work string, mod []byte) (map[string]string, error) {
	file := filepath.Join(work, "listed.mod")
	if err := os.WriteFile(file, mod, 0o600); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", "list", "-mod=mod", "-modfile="+file, "-m", "-e", "-json=Path,Dir", "all")
	cmd.Env = append(os.Environ(), "GOSUMDB=off")
	out, _ := cmd.Output() // on failure, package imports reports the cause
	dirs := map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var m struct{ Path, Dir string }
		if decoder.Decode(&m) != nil {
			return dirs, nil //nolint:nilerr // the end
		}
		dirs[m.Path] = m.Dir
	}
}

// share links the directory from to the path to. If links are not allowed, as on Windows for most
// users, it copies the files.
func share(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	if os.Symlink(from, to) == nil {
		return nil
	}
	return copyFiles(from, to)
}

// copyFiles copies a directory of the module cache, without the archives of modules.
func copyFiles(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		target := filepath.Join(to, name)
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return os.MkdirAll(target, 0o700)
		case !entry.Type().IsRegular() || filepath.Ext(path) == ".zip":
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, 0o600)
	})
}
