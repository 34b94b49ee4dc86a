// Package event makes requests of events, as CloudEvents 1.0 in the binary mode of HTTP, where the
// attributes are headers and the data is the body, or of several events in the batched mode. A
// message that is a CloudEvent already stays the one that it is. The package knows no broker and
// sends nothing.
package event

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
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
	// Header has the headers of the message. It may be nil. They are sent too, except those that
	// describe the connection or may not stand in a header. Content-Type is that of Data. A message
	// with ce-specversion (NATS, HTTP) or ce_specversion (Kafka) among them is a CloudEvent in the
	// binary mode, and one whose Content-Type is application/cloudevents+json is one in the structured
	// mode: its attributes are kept, and those of this Event become extensions, such as golessid.
	Header http.Header
	Data   []byte
}

// maxHeader is how much the headers of a request may have, in bytes. The activator refuses 16 KiB,
// with the first line and what the client adds.
const maxHeader = 12 << 10

// omittedSpace is kept free for the extension golessomitted, in bytes.
const omittedSpace = 64

// A field is a header of a request.
type field struct {
	name   string
	values []string
}

// size is about what the field takes in a request, in bytes.
func (f field) size() int {
	n := 0
	for _, value := range f.values {
		n += len(f.name) + len(value) + len(": \r\n")
	}
	return n
}

// Request makes a request of an event. Attributes and headers that do not fit into the headers of a
// request are left out, and the extension golessomitted says how many.
func (e Event) Request(ctx context.Context, method, url string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(e.data()))
	if err != nil {
		return nil, fmt.Errorf("making a request of event %s: %w", e.ID, err)
	}
	all := e.fields()
	size := 0
	for _, f := range all {
		size += f.size()
	}
	if size > maxHeader {
		all = fitting(all)
	}
	for _, f := range all {
		r.Header[f.name] = f.values
	}
	return r, nil
}

// fields are the attributes of the event and the headers of the message, with their names in the
// canonical form. The attributes come first.
func (e Event) fields() []field {
	var all []field
	if !e.structured() { // otherwise they are in the data
		attributes := e.attributes()
		values := make([]string, len(attributes)) // of all, which is faster than one of each
		all = make([]field, len(attributes), len(attributes)+len(e.Header))
		for i, a := range attributes {
			values[i] = encode(a.value)
			all[i] = field{headerOf(a.name), values[i : i+1 : i+1]}
		}
	}
	for name, values := range e.Header {
		if allowed(name, values) {
			all = append(all, field{http.CanonicalHeaderKey(name), values})
		}
	}
	return all
}

// fitting returns the fields that fit into a request, and one that says how many were left out. The
// attributes come first, then what describes the data and the trace, and the others by their names.
func fitting(all []field) []field {
	slices.SortStableFunc(all, func(a, b field) int {
		if x, y := rank(a.name), rank(b.name); x != y || x == 0 {
			return x - y
		}
		return strings.Compare(a.name, b.name)
	})
	space, attributes, headers := maxHeader-omittedSpace, 0, 0
	all = slices.DeleteFunc(all, func(f field) bool {
		switch n := f.size(); {
		case n <= space:
			space -= n
			return false
		case isAttribute(f.name):
			attributes++
		default:
			headers++
		}
		return true
	})
	return append(all, field{headerOf("golessomitted"), []string{strconv.Itoa(attributes) + " attributes, " + strconv.Itoa(headers) + " headers"}})
}

// rank says which headers are more important than others: those of the lowest rank.
func rank(name string) int {
	switch {
	case isAttribute(name):
		return 0
	case name == "Content-Type", name == "Traceparent", name == "Tracestate":
		return 1
	}
	return 2
}

// reserved are headers that describe the connection.
var reserved = map[string]bool{
	"Host": true, "Connection": true, "Content-Length": true, "Transfer-Encoding": true, "Upgrade": true,
	"Te": true, "Trailer": true, "Expect": true, "Keep-Alive": true, "Proxy-Connection": true,
}

// allowed reports whether a header of a message may be one of the request.
func allowed(name string, values []string) bool {
	canonical := http.CanonicalHeaderKey(name)
	if !httpguts.ValidHeaderFieldName(name) || reserved[canonical] || isAttribute(canonical) {
		return false
	}
	return !slices.ContainsFunc(values, func(v string) bool { return !httpguts.ValidHeaderFieldValue(v) })
}

// isAttribute reports whether a header, in the canonical form, has an attribute of a CloudEvent.
func isAttribute(canonical string) bool {
	return strings.HasPrefix(canonical, "Ce-") || strings.HasPrefix(canonical, "Ce_")
}

// headers are the names of the headers of attributes that every event has.
var headers = map[string]string{
	"specversion": "Ce-Specversion", "id": "Ce-Id", "source": "Ce-Source", "type": "Ce-Type", "time": "Ce-Time", "subject": "Ce-Subject",
}

// headerOf returns the name of the header of an attribute.
func headerOf(attribute string) string {
	if name, ok := headers[attribute]; ok {
		return name
	}
	return http.CanonicalHeaderKey("Ce-" + attribute)
}

// contentType is that of the data; "" where it is not known.
func (e Event) contentType() string {
	for name, values := range e.Header {
		if http.CanonicalHeaderKey(name) == "Content-Type" && len(values) > 0 {
			return values[0]
		}
	}
	return ""
}

// structured reports whether the data is one CloudEvent, or several, with their attributes.
func (e Event) structured() bool {
	mediaType, _, err := mime.ParseMediaType(e.contentType())
	return err == nil && strings.HasPrefix(mediaType, "application/cloudevents")
}

// An attribute is one of a CloudEvent. The value is as it is in JSON.
type attribute struct{ name, value string }

// attributes are those of the event, the required ones first, without the type of the data.
func (e Event) attributes() []attribute {
	if theirs := e.theirs(); theirs != nil {
		return e.merged(theirs)
	}
	all := append(make([]attribute, 0, 6+len(e.Extensions)), e.required()...)
	all = append(all, attribute{"subject", e.Subject}, attribute{"time", e.at()})
	for name, value := range e.Extensions {
		all = append(all, attribute{name, value})
	}
	return slices.DeleteFunc(all, func(a attribute) bool { return a.value == "" })
}

// required are the attributes that a CloudEvent must have.
func (e Event) required() []attribute {
	return []attribute{{"specversion", "1.0"}, {"id", e.ID}, {"source", e.Source}, {"type", e.Type}}
}

// merged are the attributes of a message that is a CloudEvent, with those that it lacks.
func (e Event) merged(theirs map[string]string) []attribute {
	all := e.required()
	for i, a := range all {
		if their := theirs[a.name]; their != "" {
			all[i].value = their
		}
		delete(theirs, a.name)
	}
	for name, value := range e.extensions() {
		if _, ok := theirs[name]; !ok {
			theirs[name] = value
		}
	}
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		all = append(all, attribute{name, theirs[name]})
	}
	return all
}

// at is the time of the event; "" where that is not known.
func (e Event) at() string {
	if e.Time.IsZero() {
		return ""
	}
	return e.Time.UTC().Format(time.RFC3339Nano)
}
