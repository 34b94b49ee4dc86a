package event

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"time"
	"unicode/utf8"
)

// BatchRequest makes a request of several events in the batched mode, whose body is an array of
// them in JSON. Of their headers only Content-Type has a place there.
func BatchRequest(ctx context.Context, method, url string, events []Event) (*http.Request, error) {
	batch := make([]map[string]any, len(events))
	for i, e := range events {
		batch[i] = e.attributes()
	}
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false) // data stays as it is
	if err := encoder.Encode(batch); err != nil {
		return nil, fmt.Errorf("writing a batch that begins with event %s: %w", events[0].ID, err)
	}
	r, err := http.NewRequestWithContext(ctx, method, url, &body)
	if err != nil {
		return nil, fmt.Errorf("making a request of a batch that begins with event %s: %w", events[0].ID, err)
	}
	r.Header.Set("Content-Type", "application/cloudevents-batch+json")
	return r, nil
}

// attributes are those of the event and its data, as the JSON format has them. Data that is JSON,
// or may be because its type is not known, stands there as it is, and any other data in base64.
func (e Event) attributes() map[string]any {
	all := map[string]any{"specversion": "1.0", "id": e.ID, "source": e.Source, "type": e.Type}
	for name, value := range e.Extensions {
		all[name] = value
	}
	contentType := e.contentType()
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err == nil {
		all["datacontenttype"] = contentType
	}
	if e.Subject != "" {
		all["subject"] = e.Subject
	}
	if !e.Time.IsZero() {
		all["time"] = e.Time.UTC().Format(time.RFC3339Nano)
	}
	switch isJSON := err != nil || mediaType == "application/json" || mediaType == "text/json"; {
	case len(e.Data) == 0:
	case isJSON && utf8.Valid(e.Data) && json.Valid(e.Data): // Valid does not look into strings
		all["data"] = json.RawMessage(e.Data)
	default:
		all["data_base64"] = e.Data
	}
	return all
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
