package gotool

import (
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// environ returns the whole environment of a go command. Everything that can
// change what is built has a value here, the empty ones included. Temporary
// files go below work.
func (t *Toolchain) environ(work string) []string {
	env := []string{
		"PATH=" + filepath.Join(t.Root, "bin"),
		"HOME=" + filepath.Join(work, "home"),
		"TMPDIR=" + work,
		"GOROOT=" + t.Root,
		"GOCACHE=" + t.Cache,
		"GOMODCACHE=" + t.Modules,
		"GOPATH=" + filepath.Join(work, "gopath"),
		"GOOS=" + runtime.GOOS,
		"GOARCH=" + runtime.GOARCH,
		"GOMAXPROCS=" + strconv.Itoa(runtime.GOMAXPROCS(0)),
		"CGO_ENABLED=0",
		"GO111MODULE=on",
		"GOAUTH=off",
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
	if len(t.Network) == 0 {
		return append(env, "GOPROXY=off", "GOSUMDB=off")
	}
	return append(env, t.Network...)
}

// network picks from environ what reaching a module proxy may need.
func network(environ []string) []string {
	names := []string{
		"HOME", "NETRC", "SSL_CERT_FILE", "SSL_CERT_DIR",
		"HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy",
	}
	var picked []string
	for _, variable := range environ {
		if name, _, _ := strings.Cut(variable, "="); slices.Contains(names, name) {
			picked = append(picked, variable)
		}
	}
	return picked
}

func lookup(environ []string, name string) string {
	for _, variable := range environ {
		if value, ok := strings.CutPrefix(variable, name+"="); ok {
			return value
		}
	}
	return ""
}
