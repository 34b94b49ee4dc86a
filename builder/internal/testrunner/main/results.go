package main

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

const (
	maxDiagnostics = 32 // in a report
	maxOfTest      = 4  // diagnostics of a test; the last ones are kept, because the last is fatal
	maxNames       = 8  // names of tests in a message
	maxProblems    = 4  // problems of packages in a message
	maxMessage     = 400
	maxName        = 100
)

// results are the results of all packages.
type results struct {
	notRun      string // why not all tests were run
	failed      int    // number of failed tests
	names       []string
	problems    []string // other failures than those of tests
	moreOfThem  int      // number of problems that are left out
	timedOut    bool     // a package used all the time that was left
	notStarted  string   // packages that were not started, because there was no time left
	diagnostics []diagnostic
	omitted     int // number of diagnostics that are left out
	output      tail
}

// A diagnostic is a message at a position of the author's files.
type diagnostic struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Message string `json:"message"`

	test string
}

// packageResults are the results of one package.
type packageResults struct {
	results *results
	archive *archive
	dir     string // of the package in the source

	output    tail
	hasFailed bool   // set at the end
	problem   string // a failure other than that of tests
	timedOut  bool

	failed      int      // number of failed tests without failed subtests
	names       []string // the first of their names
	last        string   // name of the last of them
	tests       []string // the failed test that the output is about, and its parents
	indentation int      // of the last diagnostic; 0 if the line before does not belong to one
	diagnostics []diagnostic
	omitted     int
	crash       crash
}

// start returns the results for a package.
func (r *results) start(a *archive, p testPackage) *packageResults {
	return &packageResults{results: r, archive: a, dir: p.Dir}
}

// addNotStarted adds a problem about the packages for which there was no time left.
func (r *results) addNotStarted(limit time.Duration, packages []testPackage) {
	if !r.timedOut {
		r.problems = slices.Insert(r.problems, 0, fmt.Sprintf("the tests ran longer than %s", limit))
	}
	verb := " was"
	if len(packages) > 1 {
		verb = " and others were"
	}
	r.notStarted = printable(packageName(packages[0].Dir), maxName) + verb + " not started"
}

// add adds the results of a package that failed.
func (r *results) add(p *packageResults) {
	p.hasFailed = true
	r.timedOut = r.timedOut || p.timedOut
	r.failed += p.failed
	for _, name := range p.names {
		if p.dir != "." && len(p.archive.manifest.Packages) > 1 {
			name = path.Base(p.dir) + "." + name
		}
		if len(r.names) < maxNames {
			r.names = append(r.names, name)
		}
	}
	r.addProblem(p)
	kept := min(len(p.diagnostics), maxDiagnostics-len(r.diagnostics))
	r.diagnostics = append(r.diagnostics, p.diagnostics[:kept]...)
	r.omitted += p.omitted + len(p.diagnostics) - kept
	for _, line := range p.output.lines {
		r.output.add(line)
	}
}

// addProblem adds a failure of a package that is not one of its tests. A timeout is the first, because
// it may explain the others.
func (r *results) addProblem(p *packageResults) {
	at := len(r.problems)
	if p.timedOut {
		at = 0
	}
	if p.problem != "" {
		r.problems = slices.Insert(r.problems, at, printable(p.problem, maxMessage))
	}
	if len(r.problems) > maxProblems {
		r.problems = r.problems[:maxProblems]
		r.moreOfThem++
	}
}

// line interprets a line of output. The output is not trusted: tests may print anything.
func (p *packageResults) line(line string) {
	p.output.add(printable(line, maxLine))
	p.crash.line(line, p.authorFile)
	text := strings.TrimLeft(line, " ")
	indentation := len(line) - len(text)
	before, header, isHeader := strings.Cut(line, headerPrefix)
	switch {
	case isHeader && len(before) == indentation && indentation%4 == 0:
		p.indentation = 0
		p.header(header, indentation/4)
	case p.message(text, indentation):
	case p.indentation > 0 && indentation >= p.indentation+4: // continues the message
		last := &p.diagnostics[len(p.diagnostics)-1]
		last.Message = printable(last.Message+" "+text, maxMessage)
	default:
		p.indentation = 0
		if isHeader { // after output without a line break
			p.header(header, 0)
		}
	}
}

// headerPrefix is the prefix of the line about a failed test.
const headerPrefix = "--- FAIL: "

// header handles the line about a failed test, such as TestA/sub (0.01s). The lines of its
// subtests follow.
func (p *packageResults) header(text string, depth int) {
	end := strings.LastIndex(text, " (")
	if end <= 0 || depth > len(p.tests) {
		return
	}
	name := printable(text[:end], maxName)
	p.tests = append(p.tests[:depth], name)
	kept := len(p.names)
	switch {
	case p.last == "" || !strings.HasPrefix(name, p.last+"/"):
		p.failed++
		if kept < maxNames {
			p.names = append(p.names, name)
		}
	case p.names[kept-1] == p.last: // its parent
		p.names[kept-1] = name
	}
	p.last = name
}

// message handles a message of a test, such as a_test.go:12: got 1, want 2. It reports whether the
// line is one.
func (p *packageResults) message(text string, indentation int) bool {
	depth := indentation/4 - 1
	if indentation%4 != 0 || depth < 0 || depth >= len(p.tests) {
		return false
	}
	place, message, ok := strings.Cut(text, ": ")
	if !ok {
		return false
	}
	name, line, ok := cutPlace(place)
	if !ok {
		return false
	}
	file, ok := p.find(name)
	if !ok {
		return false
	}
	test := p.tests[depth]
	p.add(diagnostic{File: file, Line: line, Message: printable(fmt.Sprintf("%s: %s", test, message), maxMessage), test: test})
	p.indentation = indentation
	return true
}

// add adds a diagnostic and, if there are too many of the same test, removes the first of them.
func (p *packageResults) add(d diagnostic) {
	var first, count int
	for i, other := range slices.Backward(p.diagnostics) {
		if other.test == d.test {
			first = i
			count++
		}
	}
	switch {
	case count >= maxOfTest:
		p.diagnostics = slices.Delete(p.diagnostics, first, first+1)
		p.omitted++
	case len(p.diagnostics) >= maxDiagnostics: // the last one is replaced, because lines may follow that continue it
		p.diagnostics = p.diagnostics[:maxDiagnostics-1]
		p.omitted++
	}
	p.diagnostics = append(p.diagnostics, d)
}

// find returns the name, in the source, of a file that a test names without its directory. It is in
// the package of the test or, if only another directory contains such a file, in that.
func (p *packageResults) find(name string) (string, bool) {
	if file := path.Join(p.dir, name); p.archive.files[file] {
		return file, true
	}
	var found []string
	for file := range p.archive.files {
		if path.Base(file) == name {
			found = append(found, file)
		}
	}
	if len(found) != 1 {
		return "", false
	}
	return found[0], true
}

// authorFile returns the name, in the source, of a file in a stack trace. It reports false if the
// file is not the author's.
func (p *packageResults) authorFile(name string) (string, bool) {
	rest, ok := strings.CutPrefix(name, p.archive.manifest.Module)
	version, inside, cut := strings.Cut(rest, "/")
	if !ok || !cut || version != "" && version[0] != '@' {
		return "", false
	}
	return inside, p.archive.files[inside]
}
