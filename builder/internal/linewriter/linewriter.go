// Package linewriter edits text on its way to another writer, whole lines at a time.
package linewriter

import (
	"bytes"
	"io"
)

// maxLine is how many bytes a Writer keeps until a line break comes.
const maxLine = 64 << 10

// Writer passes lines on as soon as they are complete. Close passes on a last line that
// has no line break.
type Writer struct {
	// To receives the lines. It is not closed.
	To io.Writer

	// Edit returns what to write instead of one or more lines.
	Edit func(text string) string

	rest []byte // of a line that is not complete
}

// Write keeps what follows the last line break, unless that is longer than 64 KiB.
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

// Close returns the error of the last write.
func (w *Writer) Close() error {
	if len(w.rest) == 0 {
		return nil
	}
	_, err := io.WriteString(w.To, w.Edit(string(w.rest)))
	w.rest = nil
	return err
}
