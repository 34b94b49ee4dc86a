package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// progress tells in one line what is measured at the moment. On a terminal the line
// is rewritten in place; elsewhere each step begins a line, and one that takes long
// adds another one every now and then.
type progress struct {
	out      io.Writer
	terminal bool
	began    time.Time

	step string
	told time.Time // when a line was last written
}

// tellAgain is how long a step is silent where lines cannot be rewritten.
const tellAgain = 30 * time.Second

func newProgress(f *os.File) *progress {
	return &progress{out: f, terminal: term.IsTerminal(int(f.Fd())), began: time.Now()}
}

// begin tells that a step begins.
func (p *progress) begin(step string) {
	p.step, p.told = step, time.Time{}
	p.say("")
}

// say tells how far the step has come.
func (p *progress) say(format string, args ...any) {
	line := fmt.Sprintf("[%s] %s %s", time.Since(p.began).Round(time.Second), p.step, fmt.Sprintf(format, args...))
	switch {
	case p.terminal:
		fmt.Fprintf(p.out, "\r\x1b[K%s", line)
	case time.Since(p.told) >= tellAgain:
		fmt.Fprintln(p.out, line)
		p.told = time.Now()
	}
}

// end makes room for what is written next.
func (p *progress) end() {
	if p.terminal {
		fmt.Fprintf(p.out, "\r\x1b[K")
	}
}
