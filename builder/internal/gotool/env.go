package gotool

import (
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// environ returns the whole environment of a go command that keeps modules in the
// directory modules. Everything that can change what is built has a value here,
// the empty ones included. Temporary files go below work. With network, modules
// that are missing are fetched.
func (t *Toolchain) environ(work, modules string, network bool) []string {
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
		"GOMAXPROCS=" + strconv.Itoa(runtime.GOMAXPROCS(0)),
		"CGO_ENABLED=0",
		"GO111MODULE=on",
		"GOCACHEPROG=",
		"GOENV=off",
		"GOEXPERIMENT=",
		"GOFLAGS=",
		"GOTELEMETRY=off",
		"GOTOOLCHAIN=local",
		"GOVCS=*:off",
		"GOWORK=off",
		// The index of packages is the one part of the cache whose write errors
		// are not ignored: with it a read-only cache fails the build, but only
		// where the source files are older than two seconds.
		"GODEBUG=goindex=0",
	}
	if !network {
		return append(env, "GOAUTH=off", "GOPROXY=off", "GOSUMDB=off")
	}
	return append(append(env, "GOAUTH=netrc"), t.Network...)
}

// The settings of the go command for modules: where they come from, and how they
// are verified.
var moduleSettings = []string{"GOPROXY", "GOPRIVATE", "GONOPROXY", "GONOSUMDB", "GOSUMDB"}

// connection picks from environ what reaching a module proxy may need.
func connection(environ []string) []string {
	return pick(environ, "HOME", "NETRC", "SSL_CERT_FILE", "SSL_CERT_DIR",
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

// lookup returns the value of a variable, which is the last one of several.
func lookup(environ []string, name string) (last string) {
	for _, variable := range environ {
		if value, ok := strings.CutPrefix(variable, name+"="); ok {
			last = value
		}
	}
	return last
}
