package input

import (
	"bytes"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// yamlMessage matches the messages of the YAML parser that have a line number, and
// fromZero those whose lines count from 0.
var (
	yamlMessage = regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)`)
	fromZero    = regexp.MustCompile(`^did not find expected (node content|key|'-'|','|<)`)
)

// syntaxError returns the diagnostic for an error that the parser has returned after it
// had read this many lines. The last of them is the place of a tab; for other errors the
// parser knows a better place.
func syntaxError(file string, lines int, err error) error {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	if match := yamlMessage.FindStringSubmatch(message); match != nil {
		message = match[2]
		if !strings.Contains(message, "tab character") {
			lines, _ = strconv.Atoi(match[1]) // digits
		}
		if fromZero.MatchString(message) {
			lines++
		}
	}
	return authorError(file, max(lines, 1), 0, message)
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
