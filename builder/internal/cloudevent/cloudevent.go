// Package cloudevent returns the headers and the body of an HTTP request for a CloudEvent 1.0 in
// binary content mode, for "builder invoke".
package cloudevent

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"
)

// Read returns the headers and the body for an event. text is either a complete event in the JSON
// format of CloudEvents, which has a specversion, or the data of an event, which gets a new id and
// the type io.goless.invoke.
func Read(text []byte) (http.Header, []byte, error) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(text, &fields) == nil && fields["specversion"] != nil {
		return whole(fields)
	}
	contentType := "text/plain; charset=utf-8"
	if json.Valid(text) {
		contentType = "application/json"
	}
	return http.Header{
		"Ce-Specversion": {"1.0"},
		"Ce-Id":          {rand.Text()},
		"Ce-Source":      {"/goless/invoke"},
		"Ce-Type":        {"io.goless.invoke"},
		"Ce-Time":        {time.Now().UTC().Format(time.RFC3339Nano)},
		"Content-Type":   {contentType},
	}, text, nil
}

// whole returns the headers and the body for a complete event.
func whole(fields map[string]json.RawMessage) (http.Header, []byte, error) {
	header := http.Header{"Content-Type": {"application/json"}}
	for name, value := range fields {
		if name == "data" || name == "data_base64" {
			continue
		}
		text, err := attribute(value)
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("the attribute %s of the event must be a string, a number or a boolean, and is %s", name, value)
		case name == "datacontenttype":
			header.Set("Content-Type", text)
		default:
			header.Set("Ce-"+name, encode(text))
		}
	}
	for _, name := range []string{"id", "source", "type"} {
		if header.Get("Ce-"+name) == "" {
			return nil, nil, fmt.Errorf("the event has no %s, which CloudEvents require", name)
		}
	}
	body, err := data(fields, header.Get("Content-Type"))
	return header, body, err
}

// attribute returns the header value of an attribute.
func attribute(value json.RawMessage) (text string, err error) {
	switch {
	case len(value) > 0 && value[0] == '"':
		err = json.Unmarshal(value, &text)
		return text, err
	case len(value) == 0, value[0] == '{', value[0] == '[', string(value) == "null":
		return "", errors.New("not a scalar")
	}
	return string(value), nil
}

// data returns the data of a complete event, which may be JSON, text or base64.
func data(fields map[string]json.RawMessage, contentType string) (body []byte, err error) {
	if encoded, ok := fields["data_base64"]; ok {
		if err := json.Unmarshal(encoded, &body); err != nil {
			return nil, fmt.Errorf("data_base64 of the event is not valid base64: %w", err)
		}
		return body, nil
	}
	media, _, _ := mime.ParseMediaType(contentType) // empty if invalid
	if strings.HasSuffix(media, "/json") || strings.HasSuffix(media, "+json") {
		return fields["data"], nil
	}
	if text, err := attribute(fields["data"]); err == nil {
		return []byte(text), nil
	}
	return fields["data"], nil
}

// encode encodes an attribute as required by section 3.1.3.2 of the HTTP binding: it
// percent-encodes everything but printable ASCII, and also spaces, '"' and '%'.
func encode(value string) string {
	var b strings.Builder
	for _, c := range []byte(value) {
		if c <= ' ' || c > '~' || c == '"' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
