package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// exitCrash is the exit code of a Go program after a panic or a fatal error.
const exitCrash = 2

// maxRunning is the maximum number of running tests in a message about a timeout.
const maxRunning = 3

// A crash is what the output of a Go program says about a panic, a fatal error or a timeout of its
// tests. The last one of the output counts, because it ended the program.
type crash struct {
	message   string // such as "panic: boom"
	inLine    bool   // other output without a line break precedes the message
	recovered bool   // the testing package reported the test before
	timeout   string // such as 1m0s
	running   []string
	at        frame // where it happened
	test      string

	goroutine goroutine
	waits     bool // at is in a test that waits for a subtest
	ended     int  // number of goroutines that were read
}

// A goroutine is a stack trace.
type goroutine struct {
	function string // of the next frame
	at       frame  // the first in the author's files
	test     string // name of the test function
	waits    bool   // for a subtest
}

// A frame is a position in the author's files.
type frame struct {
	file string
	line int
}

const (
	panicPrefix   = "panic: "
	fatalPrefix   = "fatal error: "
	timeoutPrefix = panicPrefix + "test timed out after "
	recovered     = " [recovered"
)

// line reads a line of output.
func (c *crash) line(line string, authorFile func(string) (string, bool)) {
	start := max(strings.Index(line, panicPrefix), strings.Index(line, fatalPrefix))
	switch {
	case start == 0, start > 0 && (c.message == "" || c.inLine):
		c.begin(line[start:], start > 0)
	case c.message == "":
	case strings.HasPrefix(line, "goroutine "):
		c.endGoroutine()
	case c.timeout != "" && strings.HasPrefix(line, "\t\t"):
		c.addRunning(line)
	case strings.HasPrefix(line, "\t"):
		c.goroutine.frame(line, authorFile)
	case line != "":
		c.goroutine.call(line)
	}
}

// begin reads the message about a crash. inLine means that other output precedes it in its line.
func (c *crash) begin(message string, inLine bool) {
	*c = crash{inLine: inLine}
	c.message, _, c.recovered = strings.Cut(message, recovered)
	if timeout, ok := strings.CutPrefix(message, timeoutPrefix); ok {
		c.timeout = timeout
	}
}

// addRunning handles a line such as "\t\tTestA/sub (1s)".
func (c *crash) addRunning(line string) {
	name, _, ok := strings.Cut(strings.TrimSpace(line), " (")
	if !ok {
		return
	}
	name = printable(name, maxName)
	if i := len(c.running) - 1; i >= 0 && strings.HasPrefix(name, c.running[i]+"/") {
		c.running[i] = name // instead of its parent
	} else if len(c.running) <= maxRunning {
		c.running = append(c.running, name)
	}
}

// call reads the line of a stack trace that names a function.
func (g *goroutine) call(line string) {
	g.function = line
	g.waits = g.waits || strings.HasPrefix(line, "testing.(*T).Run(")
	_, function, ok := strings.Cut(line[strings.LastIndex(line, "/")+1:], ".")
	if !ok || g.test != "" {
		return
	}
	if i := strings.IndexAny(function, ".([ "); i >= 0 {
		function = function[:i]
	}
	if slices.ContainsFunc([]string{"Test", "Fuzz", "Example"}, func(prefix string) bool { return strings.HasPrefix(function, prefix) }) {
		g.test = printable(function, maxName)
	}
}

// frame reads the line of a stack trace that names a position.
func (g *goroutine) frame(line string, authorFile func(string) (string, bool)) {
	if g.at.line > 0 {
		return
	}
	place, _, _ := strings.Cut(strings.TrimSpace(line), " ")
	name, number, ok := cutPlace(place)
	if !ok {
		return
	}
	if file, ok := authorFile(name); ok {
		g.at = frame{file, number}
	}
}

// endGoroutine uses the stack trace of a goroutine. A panic happened in the first one that has a
// position. A timeout is explained by a goroutine that runs a test, preferably not one that waits
// for a subtest.
func (c *crash) endGoroutine() {
	g := c.goroutine
	c.goroutine = goroutine{}
	c.ended++
	switch {
	case g.at.line == 0 || c.ended == 1: // the lines before the first goroutine belong to the message
	case c.timeout == "" && c.at.line == 0, c.isRunning(g.test) && (c.at.line == 0 || c.waits && !g.waits):
		c.at, c.test, c.waits = g.at, g.test, g.waits
	}
}

// isRunning reports whether a test function or one of its subtests was running.
func (c *crash) isRunning(test string) bool {
	return test != "" && slices.ContainsFunc(c.running, func(name string) bool { return strings.HasPrefix(name+"/", test+"/") })
}

// addCrash adds the crash to the results of a package that ended with it.
func (p *packageResults) addCrash() {
	c := &p.crash
	c.endGoroutine()
	test := c.test
	if c.recovered && p.last != "" {
		test = p.last
		p.failed--
		p.names = slices.DeleteFunc(p.names, func(name string) bool { return name == test })
	}
	switch {
	case c.timeout != "":
		p.problem, p.timedOut = "test timed out after "+c.timeout+whileRunning(c.running), true
	case test != "":
		kind, reason, _ := strings.Cut(c.message, ": ")
		p.problem = fmt.Sprintf("%s in %s: %s", kind, test, reason)
	default:
		p.problem = c.message
	}
	if c.at.line > 0 {
		p.diagnostics = slices.Insert(p.diagnostics, 0, diagnostic{File: c.at.file, Line: c.at.line, Message: printable(p.problem, maxMessage)})
	}
}

// whileRunning returns the part of a message that names running tests.
func whileRunning(names []string) string {
	switch len(names) {
	case 0:
		return ""
	case 1:
		return " while " + names[0] + " was running"
	}
	kept := names[:min(len(names), maxRunning)]
	text := " while " + strings.Join(kept, ", ")
	if len(names) > len(kept) {
		text += " and others"
	}
	return text + " were running"
}

// cutPlace splits a position such as a_test.go:12.
func cutPlace(place string) (file string, line int, ok bool) {
	file, number, ok := strings.Cut(place, ".go:")
	line, err := strconv.Atoi(number)
	return file + ".go", line, ok && err == nil && line > 0
}
