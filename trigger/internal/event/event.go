// Package event makes requests of events, as CloudEvents 1.0 in the binary mode of HTTP, where the
// attributes are headers and the data is the body, or of several events in the batched mode. It
// knows no broker and sends nothing.
package event

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// An Event is what is delivered. Events with the same ID and Source are the same event.
type Event struct {
	ID, Source, Type string

	// Time is when it happened; the zero time where that is not known.
	Time time.Time

	// Subject, and the extensions by their names, may be empty. Names of extensions are
	// lower-case letters and digits.
	Subject    string
	Extensions map[string]string

	// Header is sent too, but for what describes the connection, begins with Ce- or may not
	// stand in a header. Its Content-Type is that of Data. It may be nil.
	Header http.Header
	Data   []byte
}

// Request makes a request of an event.
func (e Event) Request(ctx context.Context, method, url string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(e.Data))
	if err != nil {
		return nil, fmt.Errorf("making a request of event %s: %w", e.ID, err)
	}
	for name, values := range e.Header {
		if allowed(name, values) {
			r.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	values := make([]string, 0, 6+len(e.Extensions)) // of all attributes, which is faster than one of each
	set := func(name, value string) {
		if value != "" {
			values = append(values, encode(value))
			r.Header[name] = values[len(values)-1 : len(values) : len(values)]
		}
	}
	set("Ce-Specversion", "1.0")
	set("Ce-Id", e.ID)
	set("Ce-Source", e.Source)
	set("Ce-Type", e.Type)
	set("Ce-Subject", e.Subject)
	if !e.Time.IsZero() {
		set("Ce-Time", e.Time.UTC().Format(time.RFC3339Nano))
	}
	for name, value := range e.Extensions {
		set(http.CanonicalHeaderKey("Ce-"+name), value)
	}
	return r, nil
}

// reserved are headers that describe the connection.
var reserved = map[string]bool{
	"Host": true, "Connection": true, "Content-Length": true, "Transfer-Encoding": true, "Upgrade": true,
	"Te": true, "Trailer": true, "Expect": true, "Keep-Alive": true, "Proxy-Connection": true,
}

// allowed tells whether a header of a message may be one of the request.
func allowed(name string, values []string) bool {
	canonical := http.CanonicalHeaderKey(name)
	if !httpguts.ValidHeaderFieldName(name) || reserved[canonical] || strings.HasPrefix(canonical, "Ce-") {
		return false
	}
	return !slices.ContainsFunc(values, func(v string) bool { return !httpguts.ValidHeaderFieldValue(v) })
}

// encode writes the value of an attribute as section 3.1.3.2 of the HTTP binding wants it:
// what is not printable ASCII, a space, '"' and '%' are percent-encoded.
func encode(value string) string {
	if !strings.ContainsFunc(value, encoded) {
		return value
	}
	var b strings.Builder
	for _, c := range []byte(value) {
		if encoded(rune(c)) {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// encoded tells whether a character, or a byte of one, is percent-encoded.
func encoded(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '%' }
