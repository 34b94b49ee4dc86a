// Package linewriter provides a writer that edits whole lines of text and passes them to another
// writer.
package linewriter

import (
	"bytes"
	"io"
)

// maxLine is the number of bytes that a Writer buffers without a line break.
const maxLine = 64 << 10

// Writer passes on lines as soon as they are complete. Close passes on a last line without a line
// break.
type Writer struct {
	// To receives the lines. It is not closed.
	To io.Writer

	// Edit returns the replacement for one or more lines.
	Edit func(text string) string

	rest []byte // incomplete line
}

// Write buffers the text after the last line break, unless it is longer than 64 KiB.
func (w *Writer) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	end := bytes.LastIndexByte(w.rest, '\n') + 1
	if len(w.rest)-end >= maxLine {
		end = len(w.rest)
	}
	if end == 0 {
		return len(p), nil
	}
	_, err := io.WriteString(w.To, w.Edit(string(w.rest[:end])))
	w.rest = bytes.Clone(w.rest[end:])
	return len(p), err
}

// Close writes the incomplete last line, if any, and returns the error of that write.
func (w *Writer) Close() error {
	if len(w.rest) == 0 {
		return nil
	}
	_, err := io.WriteString(w.To, w.Edit(string(w.rest)))
	w.rest = nil
	return err
}
