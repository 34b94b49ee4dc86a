package toolchain

import (
	"cmp"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// Environ returns the whole environment of a go command whose temporary files go
// below work and whose module cache is modules. Every variable that can change
// what is built has a value in it, even if that is empty, and nothing is taken
// from the environment of this process. With network, the go command fetches
// modules that are missing. Without, it fails.
func (t *Toolchain) Environ(work, modules string, network bool) []string {
	env := []string{
		"PATH=" + filepath.Join(t.Root, "bin"),
		"HOME=" + filepath.Join(work, "home"),
		"TMPDIR=" + work,
		"GOROOT=" + t.Root,
		"GOCACHE=" + t.Cache,
		"GOMODCACHE=" + modules,
		"GOPATH=" + filepath.Join(work, "gopath"),
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
		// For its telemetry the go command starts a process in a session of its own, which
		// outlives it, unless it has no directory for that: a relative path is none.
		"XDG_CONFIG_HOME=none",
		// The index of packages is the one part of the cache whose write errors
		// are not ignored: with it a read-only cache fails the build, but only
		// where the source files are older than two seconds.
		"GODEBUG=goindex=0",
	}
	if runtime.GOOS == "windows" { // which calls the directory of temporary files like that
		env = append(env, "TMP="+work, "TEMP="+work)
	}
	if !network {
		return append(env, "GOAUTH=off", "GOPROXY=off", "GOSUMDB=off")
	}
	return append(append(env, "GOAUTH=netrc"), t.Network...)
}

// MaxProcessors returns how many processors each command of a build may use: Processors, or
// all that this process has.
func (t *Toolchain) MaxProcessors() int { return cmp.Or(t.Processors, runtime.GOMAXPROCS(0)) }

// moduleSettings are the variables that tell the go command where modules come from
// and how to verify them.
var moduleSettings = []string{"GOPROXY", "GOPRIVATE", "GONOPROXY", "GONOSUMDB", "GOSUMDB"}

// connection returns the variables of environ that a connection to a module proxy
// may need.
func connection(environ []string) []string {
	return pick(environ, "HOME", "USERPROFILE", "NETRC", "SSL_CERT_FILE", "SSL_CERT_DIR",
		"HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy")
}

// pick returns the variables of environ that have one of the names.
func pick(environ []string, names ...string) (picked []string) {
	for _, variable := range environ {
		if name, _, _ := strings.Cut(variable, "="); slices.Contains(names, name) {
			picked = append(picked, variable)
		}
	}
	return picked
}

// Setting returns the value of a variable in Network, which is empty if it is not
// set there.
func (t *Toolchain) Setting(name string) string { return Lookup(t.Network, name) }

// Lookup returns the value of a variable in environ, which has the form of
// os.Environ. Of several values the last one counts, as in a process. It is empty
// if there is none.
func Lookup(environ []string, name string) (last string) {
	for _, variable := range environ {
		if value, ok := strings.CutPrefix(variable, name+"="); ok {
			last = value
		}
	}
	return last
}
