package delivery

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"unicode/utf8"
)

// BatchRequest returns a request that contains several events in batched content mode: its body is
// a JSON array of events. Of the headers of the messages, only Content-Type is kept.
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
		return nil, fmt.Errorf("encoding a batch that begins with event %s: %w", events[0].ID, err)
	}
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("creating a request for a batch that begins with event %s: %w", events[0].ID, err)
	}
	r.Header.Set("Content-Type", "application/cloudevents-batch+json")
	return r, nil
}

// member returns the attributes and data of the event in the JSON format of CloudEvents. Data that
// is JSON, or valid JSON of unknown type, is embedded; other data is encoded in base64.
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
	case isJSON && utf8.Valid(e.Data) && json.Valid(e.Data): // json.Valid does not check the UTF-8 of strings
		all["data"] = json.RawMessage(e.Data)
	default:
		all["data_base64"] = e.Data
	}
	return all
}
