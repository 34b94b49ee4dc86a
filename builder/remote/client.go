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

// Heartbeat is how often the service writes an empty line while it builds, to show that it
// still works.
const Heartbeat = 5 * time.Second

// maxSilence is how long the service may write nothing until the client gives up.
const maxSilence = 4 * Heartbeat

// ErrBusy says that the service has too many orders, or is about to end. The error is also
// a *StatusError, which says when to ask again.
var ErrBusy = errors.New("the build service is busy")

// A StatusError is an answer other than 200.
type StatusError struct {
	// Code is the HTTP status.
	Code int

	// Message is one line for people.
	Message string

	// RetryAfter is how long to wait before asking again, 0 if the service did not say.
	RetryAfter time.Duration
}

// Error returns the status and the message.
func (e *StatusError) Error() string {
	return fmt.Sprintf("the build service answers %d: %s", e.Code, e.Message)
}

// Is reports whether target is ErrBusy and the status says so.
func (e *StatusError) Is(target error) bool {
	return target == ErrBusy && (e.Code == http.StatusTooManyRequests || e.Code == http.StatusServiceUnavailable)
}

// A Client orders builds. It is safe for concurrent use.
type Client struct {
	url  string
	keys *Keys
	http *http.Client
}

// NewClient returns a client of the service at a URL such as
// https://goless-build.goless-system.svc:8443, which has to have the same keys.
func NewClient(url string, keys *Keys) *Client {
	return &Client{
		url:  strings.TrimSuffix(url, "/"),
		keys: keys,
		// It speaks HTTP/1.1, because its connections are spread over the replicas.
		http: &http.Client{Transport: &http.Transport{
			TLSClientConfig:       keys.ClientTLS(),
			DialContext:           (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			TLSHandshakeTimeout:   5 * time.Second,
			ResponseHeaderTimeout: maxSilence,
			MaxIdleConnsPerHost:   16,
			IdleConnTimeout:       15 * time.Second, // less than that of the service
		}},
	}
}

// At returns a client of the service at another URL, which shares the connections of c.
func (c *Client) At(url string) *Client {
	return &Client{url: strings.TrimSuffix(url, "/"), keys: c.keys, http: c.http}
}

// Build sends an order and returns the last event, which has the Report. It calls notify
// with each event before, unless notify is nil. A build that fails is not an error. A
// *StatusError is an answer of the service. All other errors say that it was not reached
// or has ended meanwhile, and the client may ask again. When ctx ends, the service cancels
// the build unless another client waits for it.
func (c *Client) Build(ctx context.Context, o Order, notify func(Event)) (Event, error) {
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
	quiet := time.AfterFunc(maxSilence, func() { cancel(fmt.Errorf("it has said nothing for %s", maxSilence)) })
	defer quiet.Stop()
	if response.StatusCode != http.StatusOK {
		return Event{}, statusError(response)
	}
	event, err := follow(&watchedReader{response.Body, quiet}, notify)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return Event{}, fmt.Errorf("waiting for the build service: %w", err)
	}
	_, _ = io.CopyN(io.Discard, response.Body, 1) // at its end, so the connection can be used again
	return event, nil
}

// follow reads events up to the one with the report.
func follow(body io.Reader, notify func(Event)) (Event, error) {
	for decoder := json.NewDecoder(body); ; {
		var event Event
		switch err := decoder.Decode(&event); {
		case errors.Is(err, io.EOF):
			return Event{}, fmt.Errorf("it has ended in the middle of the build: %w", io.ErrUnexpectedEOF)
		case err != nil:
			return Event{}, err
		case event.Dropped:
			return Event{}, &StatusError{Code: http.StatusTooManyRequests, Message: "too many builds are waiting", RetryAfter: time.Second}
		}
		if notify != nil {
			notify(event)
		}
		if len(event.Report) > 0 {
			return event, nil
		}
	}
}

// A watchedReader restarts its timer with every read.
type watchedReader struct {
	io.Reader
	quiet *time.Timer
}

// Read returns what the Reader does.
func (w *watchedReader) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	w.quiet.Reset(maxSilence)
	return n, err
}

func statusError(response *http.Response) error {
	message, _ := io.ReadAll(io.LimitReader(response.Body, 1024)) // as much as has come
	e := &StatusError{Code: response.StatusCode, Message: strings.Join(strings.Fields(string(message)), " ")}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	return e
}
