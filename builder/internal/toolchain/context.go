package toolchain

import (
	"go/build"
	"go/version"
	"runtime"
	"strconv"
	"strings"
)

// BuildContext returns what decides which files of a directory are compiled. It
// follows the rules of t, and not those of the Go that has compiled this program or of
// the environment.
func (t *Toolchain) BuildContext() *build.Context {
	c := build.Default
	c.GOROOT, c.GOPATH, c.CgoEnabled, c.ReleaseTags = t.Root, "", false, nil
	c.GOOS, c.GOARCH = runtime.GOOS, t.arch()
	minor := strings.TrimPrefix(version.Lang(t.Version), "go1.")
	last, _ := strconv.Atoi(minor) // 0 releases for a version that is not one
	for release := range last {
		c.ReleaseTags = append(c.ReleaseTags, "go1."+strconv.Itoa(release+1))
	}
	return &c
}
