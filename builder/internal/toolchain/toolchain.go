// Package toolchain finds the go command and its directories, and provides the environment and the
// arguments to run it. In the builder's image it uses the toolchain of the image, and on a
// developer's machine the installed one.
package toolchain

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
	"goless.io/builder/internal/sandbox"
)

// Pinned is the Go version that compiles functions in a cluster. Goless itself may be compiled with
// a different version.
const Pinned = handler.GoVersion

// oldest is the oldest Go version that compiles the runtime, according to its go.mod.
const oldest = "go1.26"

// ErrNoToolchain means that neither the image nor the machine has a go command.
var ErrNoToolchain = errors.New("no Go toolchain")

// A Toolchain is a go command with its directories.
type Toolchain struct {
	// Version is the version that the go command reports, such as "go1.27.4".
	Version string

	// Root is GOROOT, Cache is GOCACHE, and Modules is GOMODCACHE. All are absolute paths.
	Root, Cache, Modules string

	// Plan is the path of the file with the result of compile.MakePlan, which describes how the go
	// command compiles functions without modules. If it is empty, every build uses the go command.
	Plan string

	// Arch is the GOARCH of the binaries. Default: that of this process.
	Arch string

	// Processors is the number of processors that each command of a build may use. Default: 0,
	// which means all processors of this process.
	Processors int

	// Dependencies is a directory that an earlier build of a program with the same dependencies has
	// filled with their modules and compiled packages; see KeptDependencies. Empty if there is
	// none.
	Dependencies string

	// Network contains the environment variables, as name=value, with which the go command fetches
	// modules.
	Network []string

	// Sealed means that Root, Cache and Modules contain everything that a build needs, except for
	// the modules that a function requires. Builds then run in the sandbox: as far as the kernel
	// supports it, the compiler can access only these directories, the program and its work
	// directory, and no network. It does not write to Cache.
	Sealed bool
}

// Find returns a toolchain. If environ contains KO_DATA_PATH, as in the builder's image, it is the
// toolchain in that directory, if that exists. Otherwise it is the one whose go command is in PATH.
// The error is ErrNoToolchain if neither exists. environ has the form of os.Environ.
func Find(ctx context.Context, environ []string) (*Toolchain, error) {
	data := Lookup(environ, "KO_DATA_PATH")
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
		return nil, fmt.Errorf("%w in this image; publish the image with: make images", ErrNoToolchain)
	default:
		return nil, fmt.Errorf("%w on this machine; install Go 1.26 or newer and add it to PATH", ErrNoToolchain)
	}
}

// fromImage returns the toolchain in the directory data, which ko calls the data of an image.
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
		return nil, fmt.Errorf("finding the toolchain of the image: %w", err)
	}
	t.Version, _, _ = strings.Cut(string(version), "\n")
	if !isDir(filepath.Join(t.Root, "pkg", "tool", runtime.GOOS+"_"+runtime.GOARCH)) {
		return nil, fmt.Errorf("%w for %s in this image; publish the image on such a machine with: make images", ErrNoToolchain, runtime.GOARCH)
	}
	if !isDir(t.Cache) || !isDir(t.Modules) {
		return nil, fmt.Errorf("%w with a build cache in this image; publish the image with: make images", ErrNoToolchain)
	}
	if plan := filepath.Join(data, "plan.json"); isFile(plan) {
		t.Plan = plan
		// Without a valid plan every build would be slow, without an apparent reason.
		switch content, err := os.ReadFile(plan); {
		case err != nil:
			return nil, fmt.Errorf("reading how functions are compiled: %w", err)
		case !json.Valid(content):
			return nil, fmt.Errorf("%s is not valid JSON; publish the image again with: make images", plan)
		}
	}
	return t, nil
}

// Quota returns the disk quota of a build that writes to paths, in bytes and in files. 0 means
// sandbox.MaxDisk and sandbox.MaxDiskFiles. If both are 0 and the toolchain is not Sealed, it
// returns nil, which means no limit: on a developer's machine, builds may use the whole disk.
func (t *Toolchain) Quota(bytes int64, files int, paths ...string) *sandbox.Quota {
	if !t.Sealed && bytes == 0 && files == 0 {
		return nil
	}
	return &sandbox.Quota{Paths: paths, Bytes: cmp.Or(bytes, sandbox.MaxDisk), Files: cmp.Or(files, sandbox.MaxDiskFiles)}
}

// Command returns the path of the go command.
func (t *Toolchain) Command() string { return filepath.Join(t.Root, "bin", Executable("go")) }

// arch returns the GOARCH of the binaries.
func (t *Toolchain) arch() string { return cmp.Or(t.Arch, runtime.GOARCH) }

// Unconfined returns a log message about what this kernel cannot prevent the compiler from doing:
// accessing files, using TCP, sending signals to other processes, or leaving processes that outlive
// a build. It returns "" if the kernel prevents all of them, or if the toolchain is not Sealed,
// because in that case there is no sandbox. Landlock supports UDP from ABI 10, which hardly any
// kernel has; use network policies for UDP.
func (t *Toolchain) Unconfined() string {
	if !t.Sealed {
		return ""
	}
	return confinement(sandbox.LandlockVersion(), sandbox.ConfinesProcesses())
}

// confinement returns the message of Unconfined for a version of Landlock, with or without seccomp.
// Version 0 means that the kernel has no Landlock.
func confinement(version int, seccomp bool) string {
	switch {
	case version == 0:
		return "the kernel has no Landlock: only the container restricts the files and the network access of the compiler"
	case version < 4:
		return "the kernel is older than Linux 6.7: Landlock restricts only files; restrict the network access of the compiler and of module downloads with network policies"
	case version < 6:
		return "the kernel is older than Linux 6.12, so a compiler that an author controls can send signals to other processes of the container: it can end the builds of others and the build service"
	case !seccomp:
		return "the kernel has no seccomp filters, so a process that the compiler starts can outlive its build, exceed its limits of memory and disk, change the permissions of files of the build service, and watch directories"
	}
	return ""
}

// fromMachine returns the toolchain of an installed go command, with the user's settings for
// fetching modules.
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
		return nil, fmt.Errorf("%s has no cache here, set HOME to a directory that can be written", command)
	}
	// On a developer's machine, modules may come from version control, whose commands are in PATH.
	t.Network = append(connection(environ), "PATH="+filepath.Join(t.Root, "bin")+string(filepath.ListSeparator)+Lookup(environ, "PATH"))
	for _, name := range names[4:] {
		t.Network = append(t.Network, name+"="+env[name])
	}
	return t, nil
}

// detailed adds the stderr of a failed command to its error.
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
