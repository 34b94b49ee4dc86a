package middleware

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"
)

// appendText appends key, unchanged, and value as a JSON string. Data of a client cannot end
// the string or the line.
func appendText(line []byte, key, value string) []byte {
	line = append(line, key...)
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return appendEscaped(line, value)
		}
	}
	line = append(line, '"')
	line = append(line, value...)
	return append(line, '"')
}

// appendEscaped is the slow path of appendText. In addition to what JSON requires, it escapes
// the control characters that terminals interpret.
func appendEscaped(line []byte, value string) []byte {
	text, _ := json.Marshal(value) // cannot fail for a string
	for _, r := range string(text) {
		if 0x7f <= r && r <= 0x9f {
			line = fmt.Appendf(line, `\u%04x`, r)
		} else {
			line = utf8.AppendRune(line, r)
		}
	}
	return line
}

// appendInt is like appendText for an integer.
func appendInt(line []byte, key string, value int64) []byte {
	return strconv.AppendInt(append(line, key...), value, 10)
}

// appendSeconds is like appendText for a duration: seconds, with nanosecond precision, without
// floating-point arithmetic.
func appendSeconds(line []byte, key string, d time.Duration) []byte {
	line = appendInt(line, key, int64(d/time.Second))
	rest := d % time.Second
	if rest == 0 {
		return line
	}
	line = append(line, '.')
	for digit := time.Second / 10; rest > 0; digit /= 10 {
		line = append(line, byte('0'+rest/digit))
		rest %= digit
	}
	return line
}
