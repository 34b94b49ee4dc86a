package toolchain

import (
	"cmp"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// Environ returns the complete environment of a go command, which puts temporary files into workDir
// and uses moduleCache as its module cache. Environ sets every variable that can affect the result,
// some of them to an empty value, and uses nothing from the environment of this process. If network
// is true, the go command fetches missing modules; otherwise it fails when a module is missing.
func (t *Toolchain) Environ(workDir, moduleCache string, network bool) []string {
	env := []string{
		"PATH=" + filepath.Join(t.Root, "bin"),
		"HOME=" + filepath.Join(workDir, "home"),
		"TMPDIR=" + workDir,
		"GOROOT=" + t.Root,
		"GOCACHE=" + t.Cache,
		"GOMODCACHE=" + moduleCache,
		"GOPATH=" + filepath.Join(workDir, "gopath"),
		"GOOS=" + runtime.GOOS,
		"GOARCH=" + t.arch(),
		"GOMAXPROCS=" + strconv.Itoa(t.MaxProcessors()),
		"CGO_ENABLED=0",
		"GO111MODULE=on",
		"GOCACHEPROG=",
		"GOENV=off",
		"GOEXPERIMENT=",
		"GOFLAGS=",
		"GOTOOLCHAIN=local",
		"GOVCS=*:off",
		"GOWORK=off",
		// For telemetry, the go command starts a process in a new session, which outlives it,
		// unless it has no directory for telemetry: it does not accept a relative path.
		"XDG_CONFIG_HOME=none",
		// The package index is the only part of the cache whose write errors are not ignored: with
		// it, a read-only cache fails builds, but only if the source files are older than two
		// seconds.
		"GODEBUG=goindex=0",
	}
	if runtime.GOOS == "windows" { // Windows reads the directory for temporary files from these
		env = append(env, "TMP="+workDir, "TEMP="+workDir)
	}
	if !network {
		return append(env, "GOAUTH=off", "GOPROXY=off", "GOSUMDB=off")
	}
	return append(append(env, "GOAUTH=netrc"), t.Network...)
}

// MaxProcessors returns the number of processors that each command of a build may use: Processors,
// or all processors of this process.
func (t *Toolchain) MaxProcessors() int { return cmp.Or(t.Processors, runtime.GOMAXPROCS(0)) }

// moduleSettings are the variables that configure where the go command fetches modules and how it
// verifies them.
var moduleSettings = []string{"GOPROXY", "GOPRIVATE", "GONOPROXY", "GONOSUMDB", "GOSUMDB"}

// connection returns the variables of environ that a connection to a module proxy may need.
func connection(environ []string) []string {
	return pick(environ, "HOME", "USERPROFILE", "NETRC", "SSL_CERT_FILE", "SSL_CERT_DIR",
		"HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy")
}

// pick returns the variables of environ with the given names.
func pick(environ []string, names ...string) (picked []string) {
	for _, variable := range environ {
		if name, _, _ := strings.Cut(variable, "="); slices.Contains(names, name) {
			picked = append(picked, variable)
		}
	}
	return picked
}

// Setting returns the value of a variable in Network, or "" if it is not set there.
func (t *Toolchain) Setting(name string) string { return Lookup(t.Network, name) }

// Lookup returns the value of a variable in environ, which has the form of os.Environ, or "" if it
// is not set. The last of several values applies, as in a process.
func Lookup(environ []string, name string) (last string) {
	for _, variable := range environ {
		if value, ok := strings.CutPrefix(variable, name+"="); ok {
			last = value
		}
	}
	return last
}
