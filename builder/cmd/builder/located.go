package main

import (
	"bytes"
	"io"

	"goless.io/builder/internal/input"
)

// maxLine is how many bytes without a line break are kept back.
const maxLine = 64 << 10

// located writes lines with the places of a Function's files made places in its
// input.
type located struct {
	to       io.Writer
	function *input.Function
	rest     []byte // a line that has not ended
}

func (l *located) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	end := bytes.LastIndexByte(l.rest, '\n') + 1
	if end == 0 && len(l.rest) < maxLine {
		return len(p), nil
	}
	if end == 0 {
		end = len(l.rest)
	}
	_, err := io.WriteString(l.to, l.function.Mentions(string(l.rest[:end])))
	l.rest = append([]byte(nil), l.rest[end:]...)
	return len(p), err
}

// Close writes what does not end with a line break.
func (l *located) Close() error {
	_, err := io.WriteString(l.to, l.function.Mentions(string(l.rest)))
	return err
}
