package delivery

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"strings"
)

// theirs returns the attributes of a message that is a CloudEvent in binary content mode, or nil if
// it is not. Names that are not valid for an attribute are omitted.
//
// Headers begin with ce- and have percent-encoded values in the HTTP binding (section 3.1.3), which
// NATS shares. They begin with ce_ and have plain values in the Kafka binding (section 3.2.3).
func (e Event) theirs() map[string]string {
	var all map[string]string
	for name, values := range e.Header {
		canonical := http.CanonicalHeaderKey(name)
		if !isAttribute(canonical) || len(values) == 0 {
			continue
		}
		attribute, value := strings.ToLower(canonical[len("Ce-"):]), values[0]
		if attribute == "datacontenttype" || strings.Trim(attribute, "abcdefghijklmnopqrstuvwxyz0123456789") != "" || attribute == "" {
			continue // the type is in the header Content-Type
		}
		if canonical[len("Ce")] == '-' {
			if decoded, err := url.PathUnescape(value); err == nil {
				value = decoded
			}
		}
		if all == nil {
			all = map[string]string{}
		}
		all[attribute] = value
	}
	if all["specversion"] == "" {
		return nil
	}
	return all
}

// extensions returns the attributes that this Event adds to a message that is already a CloudEvent.
func (e Event) extensions() map[string]string {
	all := map[string]string{"golessid": e.ID, "golesssource": e.Source, "golesssubject": e.Subject, "golesstime": e.at()}
	maps.Copy(all, e.Extensions)
	maps.DeleteFunc(all, func(_, value string) bool { return value == "" })
	return all
}

// object returns the data, if it is a CloudEvent in JSON, with the extensions of this Event.
// Otherwise it returns nil.
func (e Event) object() map[string]json.RawMessage {
	mediaType, _, err := mime.ParseMediaType(e.contentType())
	var all map[string]json.RawMessage
	if err != nil || mediaType != "application/cloudevents+json" || json.Unmarshal(e.Data, &all) != nil || all["specversion"] == nil {
		return nil
	}
	for name, value := range e.extensions() {
		if text, err := json.Marshal(value); err == nil && all[name] == nil {
			all[name] = text
		}
	}
	return all
}

// data returns the body of a request that contains only this event.
func (e Event) data() []byte {
	if all := e.object(); all != nil {
		if text, err := write(all); err == nil {
			return text
		}
	}
	return e.Data
}

// write encodes v as JSON without HTML escapes in strings.
func write(v any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return text.Bytes(), err
}

// encode encodes the value of an attribute as section 3.1.3.2 of the HTTP binding requires:
// characters that are not printable ASCII, spaces, '"' and '%' are percent-encoded.
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

// encoded reports whether a character, or a byte of one, must be percent-encoded.
func encoded(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '%' }
