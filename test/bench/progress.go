package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// progress prints the current measurement. On a terminal it updates one line. Elsewhere it
// prints a line for each step, and more lines for a step that takes long.
type progress struct {
	out      io.Writer
	terminal bool
	began    time.Time

	step string
	told time.Time // when a line was last written
}

// tellAgain is the interval of lines of a long step where lines cannot be updated.
const tellAgain = 30 * time.Second

func newProgress(f *os.File) *progress {
	return &progress{out: f, terminal: term.IsTerminal(int(f.Fd())), began: time.Now()}
}

// begin reports the start of a step.
func (p *progress) begin(step string) {
	p.step, p.told = step, time.Time{}
	p.say("")
}

// say reports the progress of the step.
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

// end ends the line before other output.
func (p *progress) end() {
	if p.terminal {
		fmt.Fprintf(p.out, "\r\x1b[K")
	}
}
