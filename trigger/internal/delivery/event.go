package delivery

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

// An Event is an event to deliver. Events with the same ID and Source are the same event.
type Event struct {
	ID, Source, Type string
	// Time is the time of the event; zero if unknown.
	Time time.Time
	// Subject and Extensions are optional. Names of extensions are lower-case letters and digits.
	Subject    string
	Extensions map[string]string
	// Header contains the headers of the message, including the Content-Type of Data; it may be
	// nil. They are sent too, except invalid headers and headers of the connection. A message is a
	// CloudEvent in binary content mode if it has the header ce-specversion (NATS, HTTP) or
	// ce_specversion (Kafka), and in structured content mode if its Content-Type is
	// application/cloudevents+json. Such a message keeps its attributes, and those of this Event
	// become extensions, such as golessid.
	Header http.Header
	Data   []byte
}

// maxHeader is the maximum size of the headers of a request, in bytes. The activator rejects 16
// KiB, including the request line and the headers that the client adds.
const maxHeader = 12 << 10

// omittedSpace is reserved for the extension golessomitted, in bytes.
const omittedSpace = 64

// A field is a header of a request.
type field struct {
	name   string
	values []string
}

// size returns the approximate size of the field in a request, in bytes.
func (f field) size() int {
	n := 0
	for _, value := range f.values {
		n += len(f.name) + len(value) + len(": \r\n")
	}
	return n
}

// Request returns a request that contains the event in binary content mode. If the attributes and
// headers exceed maxHeader, some are omitted, and the extension golessomitted contains the number
// of omitted attributes and the number of omitted headers.
func (e Event) Request(ctx context.Context, method, url string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(e.data()))
	if err != nil {
		return nil, fmt.Errorf("creating a request for event %s: %w", e.ID, err)
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

// fields returns the attributes of the event, followed by the headers of the message. The names are
// in canonical form.
func (e Event) fields() []field {
	var all []field
	if !e.structured() { // otherwise the attributes are in the data
		attributes := e.attributes()
		values := make([]string, len(attributes)) // one allocation for all values
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

// fitting returns the fields that fit into a request, and the field golessomitted. Attributes take
// precedence, then the headers for the data and the trace, then the others by name.
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

// rank returns the priority of a header; lower is more important.
func rank(name string) int {
	switch {
	case isAttribute(name):
		return 0
	case name == "Content-Type", name == "Traceparent", name == "Tracestate":
		return 1
	}
	return 2
}

// reserved contains the headers of the connection.
var reserved = map[string]bool{
	"Host": true, "Connection": true, "Content-Length": true, "Transfer-Encoding": true, "Upgrade": true,
	"Te": true, "Trailer": true, "Expect": true, "Keep-Alive": true, "Proxy-Connection": true,
}

// allowed reports whether a header of a message may be sent in the request.
func allowed(name string, values []string) bool {
	canonical := http.CanonicalHeaderKey(name)
	if !httpguts.ValidHeaderFieldName(name) || reserved[canonical] || isAttribute(canonical) {
		return false
	}
	return !slices.ContainsFunc(values, func(v string) bool { return !httpguts.ValidHeaderFieldValue(v) })
}

// isAttribute reports whether a header, in canonical form, contains an attribute of a CloudEvent.
func isAttribute(canonical string) bool {
	return strings.HasPrefix(canonical, "Ce-") || strings.HasPrefix(canonical, "Ce_")
}

// headers maps the attributes that every event has to their headers.
var headers = map[string]string{
	"specversion": "Ce-Specversion", "id": "Ce-Id", "source": "Ce-Source", "type": "Ce-Type", "time": "Ce-Time", "subject": "Ce-Subject",
}

// headerOf returns the header for an attribute.
func headerOf(attribute string) string {
	if name, ok := headers[attribute]; ok {
		return name
	}
	return http.CanonicalHeaderKey("Ce-" + attribute)
}

// contentType returns the Content-Type of the data, or "".
func (e Event) contentType() string {
	for name, values := range e.Header {
		if http.CanonicalHeaderKey(name) == "Content-Type" && len(values) > 0 {
			return values[0]
		}
	}
	return ""
}

// structured reports whether the data is one or several CloudEvents with their attributes.
func (e Event) structured() bool {
	mediaType, _, err := mime.ParseMediaType(e.contentType())
	return err == nil && strings.HasPrefix(mediaType, "application/cloudevents")
}

// An attribute is an attribute of a CloudEvent. The value is not percent-encoded.
type attribute struct{ name, value string }

// attributes returns the attributes of the event without datacontenttype. The required ones come
// first.
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

// required returns the attributes that a CloudEvent must have.
func (e Event) required() []attribute {
	return []attribute{{"specversion", "1.0"}, {"id", e.ID}, {"source", e.Source}, {"type", e.Type}}
}

// merged returns the attributes of a message that is a CloudEvent, and adds the missing ones.
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

// at returns the time of the event in RFC 3339 format, or "" if it is unknown.
func (e Event) at() string {
	if e.Time.IsZero() {
		return ""
	}
	return e.Time.UTC().Format(time.RFC3339Nano)
}
