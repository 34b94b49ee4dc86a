//go:build unix

package sandbox

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestResults covers what a hijacked command can leave instead of a file. None of it may be read,
// followed, or waited for.
func TestResults(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		leave func(dir, file string) error
		want  string // error; empty for none
	}{
		"Regular":   {func(_, file string) error { return os.WriteFile(file, []byte("12345678"), 0o600) }, ""},
		"Large":     {func(_, file string) error { return os.WriteFile(file, []byte("123456789"), 0o600) }, "more than 8 bytes"},
		"Missing":   {func(string, string) error { return nil }, "no such file"},
		"Symlink":   {func(_, file string) error { return os.Symlink(secret, file) }, "not a regular file"},
		"Directory": {func(_, file string) error { return os.Mkdir(file, 0o700) }, "not a regular file"},
		"FIFO":      {func(_, file string) error { return syscall.Mkfifo(file, 0o600) }, "not a regular file"},
		"Socket": {func(_, file string) error {
			_, err := net.Listen("unix", file)
			return err
		}, "not a regular file"},
		"Parent": {func(dir, _ string) error {
			return os.Symlink(filepath.Dir(secret), filepath.Join(dir, "in"))
		}, "escapes"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, file := t.TempDir(), "file"
			if name == "Parent" {
				file = filepath.Join("in", "secret")
			}
			if err := c.leave(dir, filepath.Join(dir, file)); err != nil {
				t.Fatal(err)
			}
			data, err := ReadResult(dir, file, 8)
			if got := fmt.Sprintf("%q %v", data, err); !strings.Contains(got, cmp.Or(c.want, `"12345678" <nil>`)) {
				t.Errorf("ReadResult = %s, want %q", got, c.want)
			}
			if name != "Large" {
				copyResult(t, dir, file, secret, c.want == "")
			}
		})
	}
}

// copyResult copies a result to a path with a link to the secret, which must not change.
func copyResult(t *testing.T, dir, file, secret string, want bool) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "to")
	if err := os.Symlink(secret, to); err != nil {
		t.Fatal(err)
	}
	if err := CopyResult(dir, file, to, 0o700); (err == nil) != want {
		t.Errorf("CopyResult: %v, want a copy: %t", err, want)
	}
	if data, err := os.ReadFile(secret); err != nil || string(data) != "secret" {
		t.Errorf("CopyResult has written %q elsewhere (%v)", data, err)
	}
}
