package workload

import (
	"strings"
	"unicode"
)

// maxLine is the maximum length of a text in a condition and in an event, which is limited to 1024
// bytes.
const maxLine = 512

// OneLine converts any text to one printable line. The text may be written by a function; control
// sequences for terminals and line breaks must not reach logs.
func OneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, strings.TrimSpace(text))
	if len(text) <= maxLine {
		return text
	}
	return strings.ToValidUTF8(text[:maxLine], "") + "..."
}
