// Package gotool owns how the go command is found, confined, called and
// understood; nothing else in the builder executes it. It refuses to know what a
// handler must look like and what happens to a binary.
//
// Compiling what a stranger wrote is safe as long as nothing around it can be
// reached, so the environment of the go command is assembled from nothing, and
// every build has limits on time, file size and, where the kernel has Landlock,
// on the files and the network. Memory is limited by the container, and by the
// builder where that builds for many. The modules that a stranger requires are fetched before that, by a go command that has a
// network and compiles nothing.
package gotool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/version"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"goless.io/builder/handler"
)

// Pinned is the toolchain that compiles functions in a cluster. The Go that
// compiles Goless itself may be another.
const Pinned = handler.GoVersion

// oldest is what compiles the runtime, see its go.mod.
const oldest = "go1.26"

// ErrNoToolchain says that there is no go command to be found.
var ErrNoToolchain = errors.New("there is no Go toolchain")

// Toolchain says which go command compiles and where it finds and keeps things.
type Toolchain struct {
	// Version is what the go command calls itself, such as "go1.27.4".
	Version string

	// Root is GOROOT, Cache is GOCACHE and Modules is GOMODCACHE, as absolute
	// paths.
	Root, Cache, Modules string

	// Plan is a file that says how the go command compiles what has no modules of
	// its own. It is empty where nobody has asked it yet.
	Plan string

	// Arch is the GOARCH of what is built. It is that of this process if it is
	// empty.
	Arch string

	// Network are the environment variables, as name=value, by which modules
	// are fetched.
	Network []string

	// Sealed means that the three directories hold all that a build needs but
	// for the modules that the author of a source requires. The compiler is kept
	// from everything else, the network included, and only writes to the Cache if
	// it is Slow.
	Sealed bool

	// Slow says in a sentence why builds take long here. It is empty where
	// they do not.
	Slow string
}

// Find returns the toolchain that the builder's image carries, or else the one of
// the machine. The environment is in the form of os.Environ. The error is
// ErrNoToolchain when there is neither.
func Find(ctx context.Context, environ []string) (*Toolchain, error) {
	data := lookup(environ, "KO_DATA_PATH")
	if data != "" {
		t, err := fromImage(data, environ)
		if !errors.Is(err, os.ErrNotExist) {
			return t, err
		}
	}
	command, err := exec.LookPath("go")
	switch {
	case err == nil:
		return fromMachine(ctx, command, environ)
	case data != "":
		return nil, fmt.Errorf("%w in this image, publish it with: make images", ErrNoToolchain)
	default:
		return nil, fmt.Errorf("%w on this machine, install Go 1.26 or newer and add it to PATH", ErrNoToolchain)
	}
}

// fromImage returns the toolchain in what ko calls the data of an image. Its
// parts may be missing: without the cache the standard library is compiled into
// a temporary one, without the modules they are fetched as well.
func fromImage(data string, environ []string) (*Toolchain, error) {
	t := &Toolchain{
		Network: append(connection(environ), pick(environ, moduleSettings...)...),
		Root:    filepath.Join(data, "go"),
		Cache:   filepath.Join(data, "cache"),
		Modules: filepath.Join(data, "mod"),
		Sealed:  true,
	}
	version, err := os.ReadFile(filepath.Join(t.Root, "VERSION"))
	if err != nil {
		return nil, fmt.Errorf("looking for the toolchain of the image: %w", err)
	}
	t.Version, _, _ = strings.Cut(string(version), "\n")
	if !isDir(filepath.Join(t.Root, "pkg", "tool", runtime.GOOS+"_"+runtime.GOARCH)) {
		return nil, fmt.Errorf("%w for %s in this image, publish it on such a machine with: make images", ErrNoToolchain, runtime.GOARCH)
	}
	const why = "this image was published without a build cache, so the standard library is compiled first; publish it with: make images"
	switch {
	case !isDir(t.Modules):
		t.unseal(why)
	case !isDir(t.Cache):
		t.Slow, t.Cache = why, temporaryCache()
	case isFile(filepath.Join(data, "plan.json")):
		t.Plan = filepath.Join(data, "plan.json")
	}
	return t, nil
}

// arch returns the GOARCH of what is built.
func (t *Toolchain) arch() string { return cmp.Or(t.Arch, runtime.GOARCH) }

// temporaryCache is where a build without a cache of its own makes one.
func temporaryCache() string { return filepath.Join(os.TempDir(), "goless", "cache") }

// Notes says, in sentences for the log of a build, what is not as good here as it
// could be.
func (t *Toolchain) Notes() []string {
	var notes []string
	if t.Slow != "" {
		notes = append(notes, "this build takes long: "+t.Slow)
	}
	if t.Sealed && !Confines() {
		notes = append(notes, "the kernel has no Landlock, so nothing but the container confines the compiler")
	}
	return notes
}

// unseal gives t directories that can be written, and the network.
func (t *Toolchain) unseal(why string) {
	t.Sealed = false
	t.Slow = why
	t.Cache = temporaryCache()
	t.Modules = filepath.Join(os.TempDir(), "goless", "mod")
}

// fromMachine asks the go command for its own directories and for the way by
// which its user reaches modules.
func fromMachine(ctx context.Context, command string, environ []string) (*Toolchain, error) {
	names := append([]string{"GOVERSION", "GOROOT", "GOCACHE", "GOMODCACHE", "GOVCS"}, moduleSettings...)
	if !isDir(os.TempDir()) {
		return nil, fmt.Errorf("there is no directory %s for temporary files, set TMPDIR to one", os.TempDir())
	}
	cmd := exec.CommandContext(ctx, command, append([]string{"env", "-json"}, names...)...)
	cmd.Env = append(environ, "GOTOOLCHAIN=local")
	cmd.Dir = os.TempDir()
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("asking %s for its environment: %w", command, detailed(err))
	}
	var env map[string]string
	if err := json.Unmarshal(out, &env); err != nil {
		return nil, fmt.Errorf("asking %s for its environment: %w", command, err)
	}
	if v, _, _ := strings.Cut(env["GOVERSION"], " "); version.IsValid(v) && version.Compare(v, oldest) < 0 {
		return nil, fmt.Errorf("%s is %s, which is too old: install Go 1.26 or newer and add it to PATH", command, v)
	}
	t := &Toolchain{Version: env["GOVERSION"], Root: env["GOROOT"], Cache: env["GOCACHE"], Modules: env["GOMODCACHE"]}
	if !filepath.IsAbs(t.Cache) || !filepath.IsAbs(t.Modules) {
		t.unseal("the go command has no cache of its own here, so the standard library is compiled first; set HOME to a directory that can be written")
	}
	// Where a person works, modules may come from version control.
	t.Network = append(connection(environ), "PATH="+filepath.Join(t.Root, "bin")+string(filepath.ListSeparator)+lookup(environ, "PATH"))
	for _, name := range names[4:] {
		t.Network = append(t.Network, name+"="+env[name])
	}
	return t, nil
}

// detailed adds to the error of a command what it wrote before it failed.
func detailed(err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && len(exit.Stderr) > 0 {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return err
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
