package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"goless.io/runtime/internal/trace"
)

// never in place of a time to wait says that another attempt is pointless.
const never time.Duration = -1

// maxPause is the longest time that a collector may ask to be left alone for.
const maxPause = time.Hour

// maxAnswer is how much of an answer is read, in bytes.
const maxAnswer = 64 << 10

// sender posts batches. Only one goroutine may use it.
type sender struct {
	*config
	client  *http.Client
	logger  *zap.Logger
	failing bool // the last attempt failed
}

// newSender has a transport of its own: the user's program may change
// http.DefaultTransport.
func newSender(c *config, logger *zap.Logger) *sender {
	return &sender{
		config: c,
		logger: logger,
		client: &http.Client{
			Transport: &http.Transport{
				Proxy:               http.ProxyFromEnvironment,
				TLSClientConfig:     &tls.Config{RootCAs: c.roots},
				TLSHandshakeTimeout: 10 * time.Second,
				IdleConnTimeout:     90 * time.Second,
				ForceAttemptHTTP2:   true,
			},
			// What is redirected is a mistake in the endpoint.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

func (s *sender) encode(batch []*trace.Span) []byte {
	marshal := marshalProtobuf
	if s.json {
		marshal = marshalJSON
	}
	body := marshal(s.resource, batch)
	if !s.gzip {
		return body
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(body) // a buffer does not fail
	_ = w.Close()
	return packed.Bytes()
}

// post makes one attempt. It returns how many spans the collector refused; or
// an error with how long to wait at least for another attempt. It logs when
// exporting begins to fail and when it works again, not every failure.
func (s *sender) post(ctx context.Context, body []byte) (lost int, retry time.Duration, err error) {
	lost, reason, retry, err := s.attempt(ctx, body)
	switch {
	case err != nil && !s.failing:
		s.logger.Warn("cannot export spans", zap.Error(err))
	case err == nil && s.failing:
		s.logger.Info("exporting spans again")
	}
	if reason != "" {
		s.logger.Warn("the collector complains about spans", zap.Int("refused", lost), zap.String("reason", reason))
	}
	s.failing = err != nil
	return lost, retry, err
}

func (s *sender) attempt(ctx context.Context, body []byte) (lost int, reason string, retry time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.endpoint.String(), bytes.NewReader(body))
	if err != nil {
		return 0, "", never, err
	}
	req.Header = s.header()
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, "", 0, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode/100 == 2 {
		lost, reason = partialSuccess(answer, s.json)
		return lost, reason, 0, nil // whatever became of the answer's body
	}
	return 0, "", retryAfter(resp), errors.Join(fmt.Errorf("the collector answers %s%s", resp.Status, quoted(answer)), err)
}

func (s *sender) header() http.Header {
	header := s.headers.Clone()
	header.Set("Content-Type", "application/x-protobuf")
	if s.json {
		header.Set("Content-Type", "application/json")
	}
	if s.gzip {
		header.Set("Content-Encoding", "gzip")
	}
	if header.Get("User-Agent") == "" {
		header.Set("User-Agent", "goless-otlp/"+version)
	}
	return header
}

// retryAfter returns how long the collector wants to be left alone, 0 if it
// does not say, and never if it does not want this again at all.
func retryAfter(resp *http.Response) time.Duration {
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
	default:
		return never
	}
	text := resp.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil && seconds > 0 {
		return time.Duration(min(seconds, int(maxPause.Seconds()))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(0, time.Until(at)), maxPause)
	}
	return 0
}

// backoff is the time before the attempt after the given one: what the
// collector asked for, else from half a second doubling to eight, and then up
// to half as much again, so that not all replicas come at once.
func backoff(attempt int, asked time.Duration) time.Duration {
	d := asked
	if d == 0 {
		d = 500 * time.Millisecond << min(attempt, 4)
	}
	return d + rand.N(d/2+1)
}

// quoted is the begin of an answer if it is a text that people can read.
func quoted(answer []byte) string {
	text := strings.TrimSpace(string(answer[:min(len(answer), 200)]))
	if text == "" {
		return ""
	}
	return fmt.Sprintf(": %q", text)
}
