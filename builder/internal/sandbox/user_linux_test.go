package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// containerUser is the user of the containers that build.
const containerUser = 65532

// asContainerUser calls do with a new directory and with the file permissions of a container's
// user, even if the test runs as root. If it does not run as root, it keeps its user.
func asContainerUser(t *testing.T, do func(dir string)) {
	t.Helper()
	dir, err := os.MkdirTemp("", "goless-user-") //nolint:usetesting // the user may not enter the parent of t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is below the temporary directory
	if os.Geteuid() != 0 {
		do(dir)
		return
	}
	if err := os.Chown(dir, containerUser, containerUser); err != nil {
		t.Fatal(err)
	}
	var set error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with the goroutine, because it cannot be reused
		set = errors.Join(unix.Setfsgid(containerUser), unix.Setfsuid(containerUser))
		if set == nil {
			do(dir)
		}
	}()
	<-done
	if set != nil {
		t.Fatal(set)
	}
}

// TestQuotaUnmeasured covers directories whose files cannot be found by walking the tree.
func TestQuotaUnmeasured(t *testing.T) {
	for name, mode := range map[string]fs.FileMode{"Unreadable": 0o300, "Unsearchable": 0o600, "Closed": 0} {
		t.Run(name, func(t *testing.T) {
			asContainerUser(t, func(dir string) {
				hidden := filepath.Join(dir, "hidden")
				if err := errors.Join(os.Mkdir(hidden, 0o700), os.WriteFile(filepath.Join(hidden, "large"), make([]byte, 1<<20), 0o600), os.Chmod(hidden, mode)); err != nil {
					t.Error(err)
					return
				}
				quota := Quota{Paths: []string{dir}, Bytes: 512 << 10, Files: 10}
				if err := quota.check(); !errors.Is(err, ErrTooLarge) {
					t.Errorf("check: %v, want ErrTooLarge", err)
				}
			})
		})
	}
}

// TestRemoveAll removes what a command can leave: directories that their owner may not change or
// read, nested too deeply for a path, and a link to a directory that must not change.
func TestRemoveAll(t *testing.T) {
	for name, mode := range map[string]fs.FileMode{"Unreadable": 0o300, "Unsearchable": 0o600, "ReadOnly": 0o500, "Closed": 0} {
		t.Run(name, func(t *testing.T) {
			asContainerUser(t, func(dir string) {
				left, other := filepath.Join(dir, "left"), filepath.Join(dir, "other")
				if err := errors.Join(os.Mkdir(other, 0o500), makeClosed(left, other, mode)); err != nil {
					t.Error(err)
					return
				}
				if err := RemoveAll(left); err != nil || exists(left) {
					t.Errorf("RemoveAll: %v, want that nothing is left", err)
				}
				if info, err := os.Stat(other); err != nil || info.Mode().Perm() != 0o500 {
					t.Errorf("a directory to which a link leads is %v (%v), want that it is unchanged", info, err)
				}
			})
		})
	}
}

// makeClosed creates nested directories with this mode. The last one contains a link to other.
func makeClosed(dir, other string, mode fs.FileMode) error {
	outer, inner := filepath.Join(dir, "outer"), filepath.Join(dir, "outer", "inner")
	return errors.Join(os.MkdirAll(inner, 0o700), os.WriteFile(filepath.Join(inner, "file"), nil, 0), os.Symlink(other, filepath.Join(inner, "link")),
		makeDeep(inner), os.Chmod(inner, mode), os.Chmod(outer, mode), os.Chmod(dir, mode))
}
