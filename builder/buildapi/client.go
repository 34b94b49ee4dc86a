package buildapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Heartbeat is the interval at which the service writes an empty line during a build, to show that
// it is alive.
const Heartbeat = 5 * time.Second

// maxSilence is how long the client waits for data from the service by default.
const maxSilence = 4 * Heartbeat

// ErrBusy means that the service has too many orders or is shutting down. The error is also a
// *StatusError, which contains the time to wait before a retry.
var ErrBusy = errors.New("the build service is busy")

// ErrNoTests means that the service did not compile tests although the order requested them,
// because it is an earlier release. A retry fails until the service is upgraded.
var ErrNoTests = errors.New("the build service cannot compile tests; upgrade it to the release of the operator")

// StatusError reports that the service rejected an order: with a status other than 200, or by
// dropping it from the queue, which has the Code 429.
type StatusError struct {
	// Code is the HTTP status code.
	Code int

	// Message is a single human-readable line.
	Message string

	// RetryAfter is how long to wait before a retry; 0 if the service did not set Retry-After.
	RetryAfter time.Duration
}

// Error returns the status code and the message.
func (e *StatusError) Error() string {
	return fmt.Sprintf("the build service answers %d: %s", e.Code, e.Message)
}

// Is reports whether target is ErrBusy and the status code is 429 or 503.
func (e *StatusError) Is(target error) bool {
	return target == ErrBusy && (e.Code == http.StatusTooManyRequests || e.Code == http.StatusServiceUnavailable)
}

// Unknown reports whether the service has no result for the key of an order without a source.
// Releases before 0.2 respond with 400, so Unknown is true for 400 too.
func Unknown(err error) bool {
	refused, ok := errors.AsType[*StatusError](err)
	return ok && (refused.Code == http.StatusNotFound || refused.Code == http.StatusBadRequest)
}

// Client sends orders to the build service. It is safe for concurrent use.
type Client struct {
	// MaxSilence is how long Build waits until the service responds, including the time for
	// connecting and sending the order, and then for data during the build, before it gives up.
	// NewClient sets it to 20 seconds. It must not be changed while a Build is in progress.
	MaxSilence time.Duration

	url  string
	keys *Keys
	http *http.Client
}

// NewClient returns a client of the service at url, such as
// https://goless-build.goless-system.svc:8443. The service must use the same keys.
func NewClient(url string, keys *Keys) *Client {
	return &Client{
		MaxSilence: maxSilence,

		url:  strings.TrimSuffix(url, "/"),
		keys: keys,
		// HTTP/1.1 spreads the connections over the replicas.
		http: &http.Client{Transport: &http.Transport{
			TLSClientConfig:     keys.ClientTLS(),
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			TLSHandshakeTimeout: 5 * time.Second,
			MaxIdleConnsPerHost: 16,
			IdleConnTimeout:     15 * time.Second, // less than the idle timeout of the service
		}},
	}
}

// At returns a client of the service at another URL. It shares the connections of c.
func (c *Client) At(url string) *Client {
	return &Client{MaxSilence: c.MaxSilence, url: strings.TrimSuffix(url, "/"), keys: c.keys, http: c.http}
}

// Build sends an order and returns the event that contains the Report. notify is optional. It is
// called for each event, including that one, but not for a Dropped event: for that, Build returns
// ErrBusy.
//
// A failed build is not an error. The error is a *StatusError if the service rejects or drops the
// order, and ErrNoTests if the order requests tests and the service does not support them. All
// other errors mean that the service did not respond, or that it stopped during the build. The
// client may retry. When ctx ends, the service cancels the build unless another client waits for
// it.
func (c *Client) Build(ctx context.Context, o Order, notify func(Event)) (Event, error) {
	tests := o.Tests
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(c.MaxSilence, func() { cancel(fmt.Errorf("no data received for %s", c.MaxSilence)) })
	defer quiet.Stop()
	response, err := c.post(ctx, o)
	if err != nil {
		return Event{}, fmt.Errorf("sending the order: %w", err)
	}
	quiet.Reset(c.MaxSilence)
	defer response.Body.Close() //nolint:errcheck // it was only read
	if response.StatusCode != http.StatusOK {
		return Event{}, statusError(response)
	}
	event, err := follow(&watchedReader{response.Body, quiet, c.MaxSilence}, tests, notify)
	if errors.Is(err, ErrNoTests) {
		return Event{}, err
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return Event{}, fmt.Errorf("waiting for the build service: %w", err)
	}
	_, _ = io.CopyN(io.Discard, response.Body, 1) // reads up to EOF, so that the connection can be reused
	return event, nil
}

// post sends an order. When it returns, nothing keeps the encoded order in memory: a build may be
// queued for minutes, and net/http keeps a request until its response ends.
func (c *Client) post(ctx context.Context, o Order) (*http.Response, error) {
	encoded, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+BuildsPath, &body{rest: encoded})
	if err != nil {
		return nil, err
	}
	var again atomic.Pointer[body] // what is sent if a connection that was idle turns out to be closed
	again.Store(&body{rest: encoded})
	defer again.Store(nil)
	request.ContentLength = int64(len(encoded))
	request.GetBody = func() (io.ReadCloser, error) {
		if first := again.Load(); first != nil {
			return &body{rest: first.rest}, nil
		}
		return nil, errors.New("the order is no longer in memory")
	}
	request.Header.Set("Authorization", "Bearer "+c.keys.Token())
	request.Header.Set("Content-Type", "application/json")
	return c.http.Do(request)
}

// body is the body of a request. It is removed from memory when net/http closes it after sending it.
type body struct {
	mu   sync.Mutex // Close may be called during Read
	rest []byte
}

func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (b *body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rest = nil
	return nil
}

// follow reads events up to the one that contains the report. With tests, all of them must say so.
func follow(body io.Reader, tests bool, notify func(Event)) (Event, error) {
	for decoder := json.NewDecoder(body); ; {
		var event Event
		switch err := decoder.Decode(&event); {
		case errors.Is(err, io.EOF):
			return Event{}, fmt.Errorf("the response ended before the build finished: %w", io.ErrUnexpectedEOF)
		case err != nil:
			return Event{}, err
		case event.Dropped:
			return Event{}, &StatusError{Code: http.StatusTooManyRequests, Message: "too many builds are waiting", RetryAfter: time.Second}
		case tests && !event.Tests:
			return Event{}, ErrNoTests
		}
		if notify != nil {
			notify(event)
		}
		if len(event.Report) > 0 {
			return event, nil
		}
	}
}

// watchedReader resets its timer with every read.
type watchedReader struct {
	io.Reader
	quiet *time.Timer
	most  time.Duration
}

// Read implements [io.Reader].
func (w *watchedReader) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	w.quiet.Reset(w.most)
	return n, err
}

func statusError(response *http.Response) error {
	message, _ := io.ReadAll(io.LimitReader(response.Body, 1024)) // the part that was received
	e := &StatusError{Code: response.StatusCode, Message: strings.Join(strings.Fields(string(message)), " ")}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	return e
}
