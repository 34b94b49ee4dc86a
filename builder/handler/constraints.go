package handler

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	buildconstraint "go/build/constraint"
	"go/token"
	"go/version"
	"io"
	"strconv"
	"strings"
)

// architectures are the supported architectures of nodes.
var architectures = [...]string{"amd64", "arm64"}

// releases are the build tags of all Go releases up to GoVersion.
var releases = func() []string {
	last, _ := strconv.Atoi(strings.TrimPrefix(version.Lang(GoVersion), "go1.")) // always a number
	tags := make([]string, last)
	for i := range tags {
		tags[i] = "go1." + strconv.Itoa(i+1)
	}
	return tags
}()

// checkConstraints determines on which architectures f is built, from its name and its build
// constraints. Only an archive may contain files for other platforms.
func (c *checker) checkConstraints(f *file) {
	excluding, err := f.excluding()
	f.everywhere = len(excluding) == 0
	f.built = len(excluding) < len(architectures)
	switch {
	case err != nil:
		_, reason, _ := strings.Cut(err.Error(), f.base+": ")
		c.report(f, constraint(f.syntax), "cannot parse the build constraint: "+reason)
	case toolTag(f.syntax) != "":
		c.report(f, constraint(f.syntax), fmt.Sprintf("the build constraint %s depends on the settings of the toolchain; remove it", toolTag(f.syntax)))
	case !c.archive && !f.everywhere:
		c.report(f, constraint(f.syntax), fmt.Sprintf("the build constraint excludes the source; remove it, because functions are built for linux/%s with %s and without cgo", excluding[0], version.Lang(GoVersion)))
		f.built, f.everywhere = true, true
	case c.archive && f.syntax.Name.Name == "documentation": // never compiled
		f.built, f.everywhere = false, false
	}
}

// toolTag returns a tag in the build constraints of a file that depends on the settings of the
// toolchain, such as goexperiment.jsonv2 or amd64.v3; empty if there is none.
func toolTag(syntax *ast.File) (found string) {
	for comment := range comments(syntax) {
		expr, err := buildconstraint.Parse(comment.Text)
		if err != nil || comment.Pos() > syntax.Package {
			continue
		}
		expr.Eval(func(tag string) bool {
			if tag == "boringcrypto" || strings.Contains(tag, ".") && !strings.HasPrefix(tag, "go1.") {
				found = tag
			}
			return true
		})
	}
	return found
}

// excluding returns the architectures on which the go command does not build f.
func (f *file) excluding() (all []string, err error) {
	for _, arch := range architectures {
		platform := build.Context{
			GOOS: "linux", GOARCH: arch, Compiler: "gc", ReleaseTags: releases,
			OpenFile: func(string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(f.Data)), nil },
		}
		if match, err := platform.MatchFile(root, f.base); err != nil {
			return nil, err
		} else if !match {
			all = append(all, arch)
		}
	}
	return all, nil
}

// constraint returns the position of the first build constraint, or of the file if there is none.
func constraint(syntax *ast.File) token.Pos {
	for comment := range comments(syntax) {
		if strings.HasPrefix(comment.Text, "//go:build") || strings.HasPrefix(comment.Text, "// +build") || strings.HasPrefix(comment.Text, "//+build") {
			return comment.Pos()
		}
	}
	return syntax.FileStart
}
