package diagnose

import (
	"bytes"
	"errors"
	"path"
	"regexp"
	"strings"

	"goless.io/builder/handler"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/sandbox"
	"goless.io/builder/internal/toolchain"
)

// setupFailed is the message of go test about a package whose tests it cannot load. It did not start
// the compiler.
const setupFailed = "[setup failed]"

// ExplainTests is Explain for go test -c -json, which compiled the tests of the package that contains
// the test file with this name. Errors without a position are reported at its start.
//
// If the go command could not load the tests, for a reason that Explain does not recognize, the author
// has to act too, because loading does not depend on the machine.
func ExplainTests(t *toolchain.Toolchain, p *program.Program, r *sandbox.Result, err error, testFile string) error {
	output := bytes.Clone(r.Stdout.Bytes()) // reading drains it
	err = explain(t, p, r, err, testFile)
	_, known := errors.AsType[*handler.Error](err)
	if known || IsLimit(err) || errors.Is(err, ErrFetch) || !bytes.Contains(output, []byte(setupFailed)) {
		return err
	}
	var lines []string
	for _, unit := range units(bytes.NewReader(output)) {
		lines = append(lines, Lines(t, p, unit.text)...)
	}
	if len(lines) == 0 || IsMachineTrouble(lines) {
		return err
	}
	message := oneLine(authorNames(strings.Join(lines, "; ")))
	message = strings.ReplaceAll(message, program.HandlerDir+"/"+testFile, testFile)
	return NewError([]handler.Diagnostic{handler.NewDiagnostic(testFile, 1, 1, "the tests cannot be compiled: "+message)})
}

// testedPackage returns the import path of the package that output is about. For the external tests
// of one of the author's packages, and for the main package that the go command generates for tests,
// it is the tested package. The go command names these packages as in:
//
//	example.com/m/a [example.com/m/a.test]
//	example.com/m/a_test [example.com/m/a.test]
//	example.com/m/a.test
func (d *diagnosis) testedPackage(unit string) string {
	importPath, variant, _ := strings.Cut(unit, " ")
	tested := strings.TrimSuffix(strings.TrimPrefix(variant, "["), ".test]")
	if variant == "" {
		tested = strings.TrimSuffix(importPath, ".test")
	}
	if d.testFile != "" && d.isAuthors(tested) && (importPath == tested+".test" || importPath == tested+"_test") {
		return tested
	}
	return importPath
}

// testMain matches an error in the main package that the go command generates for tests. It is about
// a function in the tests.
var testMain = regexp.MustCompile(`^\S*_testmain\.go:\d+(?::\d+)?: (.*\b_x?test\.(\w+)\b.*)$`)

// placeTest adds a diagnostic if the line is about a function in the tests that has a wrong type.
func (d *diagnosis) placeTest(line string) bool {
	parts := testMain.FindStringSubmatch(line)
	if parts == nil || d.testFile == "" {
		return false
	}
	file, number := d.testFile, 1
	declaration := regexp.MustCompile(`(?m)^\s*func\s+` + parts[2] + `\b`)
	for _, f := range d.program.Source.Files {
		if at := declaration.FindIndex(f.Data); at != nil && path.Dir(f.Name) == path.Dir(d.testFile) && strings.HasSuffix(f.Name, "_test.go") {
			file, number = f.Name, 1+bytes.Count(f.Data[:at[1]], []byte("\n"))
		}
	}
	d.add(file, number, 1, parts[1])
	return true
}
