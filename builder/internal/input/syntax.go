package input

import (
	"bytes"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// yamlMessage matches the messages of the YAML parser that have a line number, fromZero those
// whose lines count from 0, and fromStart those whose line is the one where what they are about
// has begun.
var (
	yamlMessage = regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)`)
	fromZero    = regexp.MustCompile(`^did not find expected (node content|'-'|','|<)`)
	fromStart   = regexp.MustCompile(`tab character|^did not find expected key`)
)

// unknownAlias matches the message about an alias of nothing, which has no line.
var unknownAlias = regexp.MustCompile(`^unknown anchor '(.*)' referenced`)

// beginsQuote matches a line whose value begins with a quote that does not end there.
var beginsQuote = regexp.MustCompile(`^[ -]*[\w./-]+: +(["'])[^"']*$`)

// openQuote returns the index of the last line of the last document whose value begins with a
// quote that nobody has closed: the parser goes on to the next quote, wherever that is. It is -1
// where there is none.
func openQuote(lines []string) int {
	for i, line := range slices.Backward(lines) {
		if strings.HasPrefix(line, "---") {
			break
		}
		if match := beginsQuote.FindStringSubmatch(line); match != nil && !closes(lines[i+1:], match[1]) {
			return i
		}
	}
	return -1
}

// closes reports whether the first line that has a quote ends with it.
func closes(lines []string, quote string) bool {
	for _, line := range lines {
		if _, after, found := strings.Cut(line, quote); found {
			return strings.TrimSpace(after) == ""
		}
	}
	return false
}

// syntaxError returns the diagnostic for an error that the parser has returned after it had
// read some lines of a file. The last of them is the place unless the parser knows a better one.
func syntaxError(file string, lines []string, read int, err error) error {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	at := read
	if match := yamlMessage.FindStringSubmatch(message); match != nil {
		message = match[2]
		if !fromStart.MatchString(message) {
			at, _ = strconv.Atoi(match[1]) // digits
		}
		if fromZero.MatchString(message) {
			at++
		}
	}
	if last := len(lines) - 1; last > 0 && lines[last] == "" {
		lines = lines[:last]
	}
	at = min(max(at, 1), len(lines)) // the parser may be behind the end
	open := openQuote(lines[:at])
	switch match := unknownAlias.FindStringSubmatch(message); {
	case match != nil:
		for i, line := range slices.Backward(lines[:at]) {
			if strings.Contains(line, "*"+match[1]) {
				at = i + 1
				break
			}
		}
	case strings.HasSuffix(message, "expected alphabetic or numeric character"):
		message += "; a value that begins with * or & needs quotes"
	case strings.HasPrefix(strings.TrimLeft(lines[at-1], " "), "\t"):
		message += "; indent with spaces, not with tabs"
	case open >= 0:
		at = open + 1
		message += ": close the quote in this line"
	case strings.HasSuffix(message, "expected key"), strings.HasSuffix(message, "expected ':'"):
		message += ", is this line, or the one above, indented like those beside it?"
	case strings.HasPrefix(message, "mapping values are not allowed"):
		message += "; in this line or the one above, the indentation is wrong, a colon is missing, or a value with a colon and a space in it needs quotes"
	}
	return authorError(file, at, 0, message)
}

// A lineReader returns one line for each Read, and counts them.
type lineReader struct {
	rest  []byte
	count int
}

// Read returns less than a line where p is shorter.
func (r *lineReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	n := len(p)
	if end := bytes.IndexByte(r.rest[:min(len(r.rest), n)], '\n'); end >= 0 {
		n = end + 1
		r.count++
	}
	n = copy(p[:min(len(p), n)], r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
