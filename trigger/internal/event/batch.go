package event

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"unicode/utf8"
)

// BatchRequest makes a request of several events in the batched mode, whose body is an array of
// them in JSON. Of their headers only Content-Type has a place there.
func BatchRequest(ctx context.Context, method, url string, events []Event) (*http.Request, error) {
	batch := make([]any, len(events))
	for i, e := range events {
		if object := e.object(); object != nil {
			batch[i] = object
		} else {
			batch[i] = e.member()
		}
	}
	body, err := write(batch)
	if err != nil {
		return nil, fmt.Errorf("writing a batch that begins with event %s: %w", events[0].ID, err)
	}
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("making a request of a batch that begins with event %s: %w", events[0].ID, err)
	}
	r.Header.Set("Content-Type", "application/cloudevents-batch+json")
	return r, nil
}

// member has the attributes of the event and its data, as the JSON format has them. Data that is JSON,
// or may be because its type is not known, stands there as it is, and any other data in base64.
func (e Event) member() map[string]any {
	all := map[string]any{}
	for _, a := range e.attributes() {
		all[a.name] = a.value
	}
	contentType := e.contentType()
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err == nil {
		all["datacontenttype"] = contentType
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
