package testrunner

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// source is the source of the runner. Its tests are in this package, so that they are not embedded.
//
//go:embed main/*.go
var source embed.FS

// module is the go.mod of the runner, which depends on the standard library only.
const module = "module goless.io/testrunner\n\ngo 1.26\n"

// WriteSource writes a module with the source of the runner to the directory dir, which must exist.
func WriteSource(dir string) error {
	err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(module), 0o600)
	if err == nil {
		err = eachFile(func(name string, data []byte) error {
			return os.WriteFile(filepath.Join(dir, filepath.Base(name)), data, 0o600)
		})
	}
	if err != nil {
		return fmt.Errorf("writing the test runner: %w", err)
	}
	return nil
}

// Fingerprint identifies the source of the runner and the format of the archive, in hexadecimal.
func Fingerprint() string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s", layout, module)
	_ = eachFile(func(name string, data []byte) error { // fails only if use fails
		fmt.Fprintf(h, "%s %d\n%s", name, len(data), data)
		return nil
	})
	return hex.EncodeToString(h.Sum(nil))
}

// eachFile calls use with each file of the source, in the order of their names.
func eachFile(use func(name string, data []byte) error) error {
	return fs.WalkDir(source, "main", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := source.ReadFile(name)
		if err != nil {
			return err
		}
		return use(name, data)
	})
}
