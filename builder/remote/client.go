package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// silence is how long a service that works says nothing: it writes an empty line
// every Heartbeat.
const silence = 4 * Heartbeat

// Heartbeat is how often the service shows that it still builds.
const Heartbeat = 5 * time.Second

// ErrBusy says that the service has too many orders, or is about to end. It is a
// *StatusError too, which says when to ask again.
var ErrBusy = errors.New("the build service is busy")

// A StatusError is an answer other than 200.
type StatusError struct {
	// Code is the HTTP status.
	Code int

	// Message is one line for people.
	Message string

	// RetryAfter is when the service wants to be asked again, 0 if it did not say.
	RetryAfter time.Duration
}

// Error says what the service did.
func (e *StatusError) Error() string {
	return fmt.Sprintf("the build service answers %d: %s", e.Code, e.Message)
}

// Is makes an ErrBusy of what is one.
func (e *StatusError) Is(target error) bool {
	return target == ErrBusy && (e.Code == http.StatusTooManyRequests || e.Code == http.StatusServiceUnavailable)
}

// A Client orders builds. It may be used by many at a time.
type Client struct {
	url  string
	keys *Keys
	http *http.Client
}

// NewClient returns a client of the service at a URL such as
// https://goless-build.goless-system.svc:8443, which has the same seed.
func NewClient(url string, keys *Keys) *Client {
	return &Client{
		url:  strings.TrimSuffix(url, "/"),
		keys: keys,
		// HTTP/1.1, whose connections are spread over the replicas.
		http: &http.Client{Transport: &http.Transport{
			TLSClientConfig:       keys.ClientTLS(),
			DialContext:           (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			TLSHandshakeTimeout:   5 * time.Second,
			ResponseHeaderTimeout: silence,
			MaxIdleConnsPerHost:   16,
			IdleConnTimeout:       15 * time.Second, // before the service does
		}},
	}
}

// Build sends an order and returns the last event, the one with the Report. Each
// event is given to tell first, unless that is nil. A build that fails is no
// error. A *StatusError is the service's word, and all other errors say that it
// was not reached or that it has ended meanwhile: it is fine to ask again. When
// ctx ends the service stops building, unless others wait for the same.
func (c *Client) Build(ctx context.Context, o Order, tell func(Event)) (Event, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return Event{}, fmt.Errorf("encoding the order: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+BuildsPath, bytes.NewReader(body))
	if err != nil {
		return Event{}, fmt.Errorf("ordering a build: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+c.keys.Token())
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return Event{}, fmt.Errorf("asking the build service: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	if response.StatusCode != http.StatusOK {
		return Event{}, statusError(response)
	}
	quiet := time.AfterFunc(silence, func() { cancel(fmt.Errorf("it has said nothing for %s", silence)) })
	defer quiet.Stop()
	event, err := follow(&heard{response.Body, quiet}, tell)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return Event{}, fmt.Errorf("waiting for the build service: %w", err)
	}
	_, _ = io.CopyN(io.Discard, response.Body, 1) // what has ended can be used again
	return event, nil
}

// follow reads events up to the one with the report.
func follow(body io.Reader, tell func(Event)) (Event, error) {
	for decoder := json.NewDecoder(body); ; {
		var event Event
		switch err := decoder.Decode(&event); {
		case errors.Is(err, io.EOF):
			return Event{}, fmt.Errorf("it has ended in the middle of the build: %w", io.ErrUnexpectedEOF)
		case err != nil:
			return Event{}, err
		}
		if tell != nil {
			tell(event)
		}
		if len(event.Report) > 0 {
			return event, nil
		}
	}
}

// heard is a body that somebody is still writing.
type heard struct {
	io.Reader
	quiet *time.Timer
}

// Read postpones the end of patience.
func (h *heard) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	h.quiet.Reset(silence)
	return n, err
}

func statusError(response *http.Response) error {
	message, _ := io.ReadAll(io.LimitReader(response.Body, 1024)) // what there is of it
	e := &StatusError{Code: response.StatusCode, Message: strings.Join(strings.Fields(string(message)), " ")}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	return e
}
