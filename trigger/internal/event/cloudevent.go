package event

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

// theirs are the attributes of a message that is a CloudEvent in the binary mode, and nil of one that
// is none. Names that no attribute can have are left out.
//
// Headers begin with ce- in section 3.1.3 of the HTTP binding, which NATS shares, and have their values
// percent-encoded; they begin with ce_ in section 3.2.3 of the Kafka binding, and have them as they are.
func (e Event) theirs() map[string]string {
	var all map[string]string
	for name, values := range e.Header {
		canonical := http.CanonicalHeaderKey(name)
		if !isAttribute(canonical) || len(values) == 0 {
			continue
		}
		attribute, value := strings.ToLower(canonical[len("Ce-"):]), values[0]
		if attribute == "datacontenttype" || strings.Trim(attribute, "abcdefghijklmnopqrstuvwxyz0123456789") != "" || attribute == "" {
			continue // the type is that of the header Content-Type
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

// extensions are what this Event adds to a message that is a CloudEvent already.
func (e Event) extensions() map[string]string {
	all := map[string]string{"golessid": e.ID, "golesssource": e.Source, "golesssubject": e.Subject, "golesstime": e.at()}
	maps.Copy(all, e.Extensions)
	maps.DeleteFunc(all, func(_, value string) bool { return value == "" })
	return all
}

// object is the CloudEvent in JSON that the data of a message is, with the extensions of this Event.
// It is nil where the data is none.
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

// data is the body of a request of this event alone.
func (e Event) data() []byte {
	if all := e.object(); all != nil {
		if text, err := write(all); err == nil {
			return text
		}
	}
	return e.Data
}

// write returns v in JSON, without changes within strings.
func write(v any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return text.Bytes(), err
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

// encoded reports whether a character, or a byte of one, is percent-encoded.
func encoded(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '%' }
