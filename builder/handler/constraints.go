package handler

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/token"
	"go/version"
	"io"
	"slices"
	"strconv"
	"strings"
)

// architectures are those of the machines that functions run on.
var architectures = [...]string{"amd64", "arm64"}

// releases are the build constraints that stand for a release of Go or a later
// one.
var releases = func() []string {
	last, _ := strconv.Atoi(strings.TrimPrefix(version.Lang(GoVersion), "go1.")) // it is a number
	tags := make([]string, last)
	for i := range tags {
		tags[i] = "go1." + strconv.Itoa(i+1)
	}
	return tags
}()

// everywhere is where a file is assumed to be built if its constraints are wrong.
var everywhere = [len(architectures)]bool{true, true}

// checkConstraints fills in where f is built, by its name and by what stands
// above its package clause. In an archive, a file may be for another platform.
func (c *checker) checkConstraints(f *file) {
	for i := range architectures {
		match, err := f.matches(i)
		if err != nil {
			_, reason, _ := strings.Cut(err.Error(), f.base+": ")
			c.report(f, constraint(f.syntax), "the build constraint cannot be read, mend it: "+reason)
			f.builds = everywhere
			return
		}
		neverCompiled := c.archive && f.syntax.Name.Name == "documentation"
		f.builds[i] = match && !neverCompiled
	}
	if i := slices.Index(f.builds[:], false); i >= 0 && !c.archive {
		c.report(f, constraint(f.syntax), fmt.Sprintf("the build constraint excludes the source, remove it: functions are built for linux/%s with %s and without cgo", architectures[i], version.Lang(GoVersion)))
		f.builds = everywhere
	}
}

// matches reports whether f is built on an architecture.
func (f *file) matches(arch int) (bool, error) {
	platform := build.Context{
		GOOS: "linux", GOARCH: architectures[arch], Compiler: "gc", ReleaseTags: releases,
		OpenFile: func(string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(f.Data)), nil },
	}
	return platform.MatchFile(root, f.base)
}

// constraint returns the place of the first build constraint, or else of the
// file.
func constraint(syntax *ast.File) token.Pos {
	for comment := range comments(syntax) {
		if strings.HasPrefix(comment.Text, "//go:build") || strings.HasPrefix(comment.Text, "// +build") || strings.HasPrefix(comment.Text, "//+build") {
			return comment.Pos()
		}
	}
	return syntax.FileStart
}
