package toolchain

import (
	"go/build"
	"go/version"
	"runtime"
	"strconv"
	"strings"
)

// BuildContext returns the build context that selects the files to compile. It follows the rules of
// t, and not those of the environment or of the Go version that compiled this program, except for
// tags such as goexperiment.jsonv2, which package handler rejects.
func (t *Toolchain) BuildContext() *build.Context {
	c := build.Default
	c.GOROOT, c.GOPATH, c.CgoEnabled, c.ReleaseTags = t.Root, "", false, nil
	c.GOOS, c.GOARCH = runtime.GOOS, t.arch()
	minor := strings.TrimPrefix(version.Lang(t.Version), "go1.")
	last, _ := strconv.Atoi(minor) // 0 for an invalid version
	for release := range last {
		c.ReleaseTags = append(c.ReleaseTags, "go1."+strconv.Itoa(release+1))
	}
	return &c
}
