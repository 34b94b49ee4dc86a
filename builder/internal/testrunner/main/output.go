package main

import (
	"bytes"
	"io"
	"strings"
	"unicode"
)

const (
	// maxLine is the maximum number of bytes of a line of output that are interpreted: its start
	// and its end, because the testing package does not begin a new line before its messages.
	maxLine = 1024

	// maxOutput is the maximum size of the output in a report, in bytes.
	maxOutput = 2048
)

// A lineWriter copies everything to out immediately, and passes at most maxLine bytes of each line to
// line. Its memory does not depend on the output.
type lineWriter struct {
	out  io.Writer
	line func(string)

	unfinished []byte // the start and the end of the line that is not finished
}

// Write never fails, so that the tests are not blocked.
func (w *lineWriter) Write(p []byte) (int, error) {
	_, _ = w.out.Write(p)
	for rest := p; len(rest) > 0; {
		part, after, ended := bytes.Cut(rest, []byte("\n"))
		w.add(part)
		if ended {
			w.end()
		}
		rest = after
	}
	return len(p), nil
}

// add adds a part to the unfinished line. If that becomes too long, add removes its middle.
func (w *lineWriter) add(part []byte) {
	const half = maxLine / 2
	if free := half - len(w.unfinished); free > 0 {
		free = min(free, len(part))
		w.unfinished, part = append(w.unfinished, part[:free]...), part[free:]
	}
	w.unfinished = append(w.unfinished, part[max(0, len(part)-half):]...)
	if len(w.unfinished) > maxLine {
		w.unfinished = append(w.unfinished[:half], w.unfinished[len(w.unfinished)-half:]...)
	}
}

func (w *lineWriter) end() {
	w.line(strings.TrimSuffix(string(w.unfinished), "\r"))
	w.unfinished = w.unfinished[:0]
}

// close ends an unfinished line.
func (w *lineWriter) close() {
	if len(w.unfinished) > 0 {
		_, _ = w.out.Write([]byte("\n"))
		w.end()
	}
}

// A tail contains the last lines of an output, at most maxOutput bytes.
type tail struct {
	lines []string
	size  int
}

func (t *tail) add(line string) {
	t.lines = append(t.lines, line)
	t.size += len(line) + 1
	for t.size > maxOutput {
		t.size -= len(t.lines[0]) + 1
		t.lines = t.lines[1:]
	}
}

// printable returns text without characters that could change a terminal or a log. It truncates
// text to a number of bytes.
func printable(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, strings.ReplaceAll(text, "\t", "    "))
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most-len("...")], "") + "..."
	}
	return text
}
