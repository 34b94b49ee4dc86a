// Package readable formats the logs of functions for people at a terminal. It recognizes the log
// lines of the runtime, and leaves all other lines unchanged.
package readable

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Lines formats log lines with the time of day, the level, the message, and the fields that differ
// between lines. Stack traces follow their lines, without the frames of the runtime and of
// net/http.
func Lines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(readable(line))
	}
	return b.String()
}

// readable formats one line.
func readable(line string) string {
	fields, ok := parse(line)
	if !ok {
		return line
	}
	e := entry{fields: fields}
	message := e.take("msg")
	if message == "" {
		return line
	}
	level := strings.ToUpper(e.take("level"))
	at, err := time.Parse(time.RFC3339Nano, e.take("time"))
	if err != nil {
		return line
	}
	e.take("faas.name") // the same in all lines
	var stack string
	switch { // a handler may also log these messages
	case message == "request" && e.index("http.request.method") >= 0:
		message = e.request()
	case message == "panic in the handler" && e.index("exception.stacktrace") >= 0:
		message = "panic: " + e.take("exception.message")
		stack = ownFrames(e.take("exception.stacktrace"))
		e.take("exception.type")
		e.take("request_id")
		e.take("trace_id")
	}
	return fmt.Sprintf("%s %-5s %s%s\n%s", at.Local().Format(time.TimeOnly), level, message, e.rest(), stack)
}

// A field is a name and a value in JSON.
type field struct {
	name  string
	value json.RawMessage
}

// parse returns the fields of a JSON object in order. It reports false if the line is not exactly
// one object.
func parse(line string) (fields []field, ok bool) {
	decoder := json.NewDecoder(strings.NewReader(line))
	if first, err := decoder.Token(); err != nil || first != json.Delim('{') {
		return nil, false
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return nil, false
		}
		f := field{}
		if f.name, ok = name.(string); !ok || decoder.Decode(&f.value) != nil {
			return nil, false
		}
		fields = append(fields, f)
	}
	_, err := decoder.Token()
	_, end := decoder.Token()
	return fields, err == nil && errors.Is(end, io.EOF)
}

// An entry is a log line.
type entry struct{ fields []field }

// index returns the index of a field, or -1.
func (e *entry) index(name string) int {
	return slices.IndexFunc(e.fields, func(f field) bool { return f.name == name })
}

// take removes a field and returns its value, or "" if it is missing.
func (e *entry) take(name string) string {
	i := e.index(name)
	if i < 0 {
		return ""
	}
	value := plain(e.fields[i].value)
	e.fields = slices.Delete(e.fields, i, i+1)
	return value
}

// request removes the fields of an access log entry and returns a summary of them.
func (e *entry) request() string {
	seconds, _ := strconv.ParseFloat(e.take("duration"), 64) // 0 if it is missing
	took := time.Duration(seconds * float64(time.Second))
	if took > time.Millisecond {
		took = took.Round(10 * time.Microsecond)
	}
	message := fmt.Sprintf("%s %s %s %s", e.take("http.request.method"), e.take("url.path"), e.take("http.response.status_code"), took)
	for _, name := range []string{"http.response.body.size", "network.peer.address", "request_id", "trace_id"} {
		e.take(name)
	}
	return message
}

// rest returns the remaining fields as name=value.
func (e *entry) rest() string {
	var b strings.Builder
	for _, f := range e.fields {
		value := plain(f.value)
		if value == "" || strings.ContainsAny(value, " \t\n\"") {
			value = string(f.value)
		}
		b.WriteString(" " + f.name + "=" + value)
	}
	return b.String()
}

// plain returns a string without quotes, and any other value unchanged.
func plain(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(bytes.TrimSpace(value))
}

// foreign are prefixes of functions that call a handler or report its panic.
var foreign = []string{"goless.io/runtime", "net/http.", "created by net/http.", "runtime/debug.", "panic("}

// ownFrames returns the frames of a stack that are not foreign. A frame has two lines.
func ownFrames(stack string) string {
	var b strings.Builder
	lines := slices.Collect(strings.Lines(stack))
	for i := 1; i+1 < len(lines); i += 2 { // the first line contains the goroutine
		if !slices.ContainsFunc(foreign, func(prefix string) bool { return strings.HasPrefix(lines[i], prefix) }) {
			b.WriteString("    " + lines[i] + "    " + lines[i+1])
		}
	}
	return b.String()
}
