package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"goless.io/trigger/internal/delivery"
)

var now = time.Date(2026, time.November, 23, 3, 0, 0, 0, time.UTC)

// The contract: the verdict for each response.
func TestJudge(t *testing.T) {
	for code, want := range map[int]delivery.Verdict{
		200: delivery.Done, 201: delivery.Done, 202: delivery.Done, 204: delivery.Done, 299: delivery.Done,
		301: delivery.Refused, 304: delivery.Refused, 307: delivery.Refused,
		400: delivery.Refused, 401: delivery.Refused, 403: delivery.Refused, 405: delivery.Refused, 410: delivery.Refused, 413: delivery.Refused, 422: delivery.Refused,
		404: delivery.Again, 408: delivery.Again, 409: delivery.Again, 429: delivery.Again,
		500: delivery.Again, 501: delivery.Again, 502: delivery.Again, 503: delivery.Again, 504: delivery.Again, 599: delivery.Again,
	} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			if got, _ := delivery.Judge(&http.Response{StatusCode: code, Header: http.Header{}}, nil, now); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
	for name, test := range map[string]struct {
		err  error
		want delivery.Verdict
	}{
		"Timeout":      {context.DeadlineExceeded, delivery.Again},
		"Reset":        {&net.OpError{Op: "read", Err: syscall.ECONNRESET}, delivery.Again},
		"Other":        {errors.New("other"), delivery.Again},
		"NoConnection": {fmt.Errorf("post: %w", &delivery.ConnectError{Err: context.DeadlineExceeded}), delivery.Pause},
	} {
		t.Run(name, func(t *testing.T) {
			if got, _ := delivery.Judge(nil, test.err, now); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	for name, test := range map[string]struct {
		code          int
		after, reject string
		want          delivery.Verdict
		wait          time.Duration
	}{
		"Seconds":   {code: 503, after: "7", want: delivery.Again, wait: 7 * time.Second},
		"Date":      {code: 429, after: now.Add(time.Minute).Format(http.TimeFormat), want: delivery.Again, wait: time.Minute},
		"Past":      {code: 429, after: now.Add(-time.Minute).Format(http.TimeFormat), want: delivery.Again},
		"Nonsense":  {code: 500, after: "soon", want: delivery.Again},
		"Negative":  {code: 500, after: "-1", want: delivery.Again},
		"Year":      {code: 503, after: "31536000", want: delivery.Again, wait: time.Hour},
		"Overflow":  {code: 503, after: "99999999999999999999", want: delivery.Again},
		"Rejected":  {code: 503, after: "1", reject: "concurrency", want: delivery.Pause, wait: time.Second},
		"Forged":    {code: 500, after: "1", reject: "concurrency", want: delivery.Again, wait: time.Second},
		"Forbidden": {code: 403, after: "7", want: delivery.Refused},
	} {
		t.Run(name, func(t *testing.T) {
			header := http.Header{"Retry-After": {test.after}}
			if test.reject != "" {
				header.Set(delivery.RejectedHeader, test.reject)
			}
			got, wait := delivery.Judge(&http.Response{StatusCode: test.code, Header: header}, nil, now)
			if got != test.want || wait != test.wait {
				t.Errorf("got %s and %s, want %s and %s", got, wait, test.want, test.wait)
			}
		})
	}
}

func TestBackoff(t *testing.T) {
	b := delivery.Backoff{First: time.Second, Max: 10 * time.Second}
	for n, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 4: 8 * time.Second, 5: 10 * time.Second, 1_000_000: 10 * time.Second} {
		if shortest, longest := b.Wait(n, 0, 0), b.Wait(n, 0, 1); shortest != want/2 || longest != want {
			t.Errorf("after try %d it waits from %s to %s, want half of %s up to that", n, shortest, longest, want)
		}
	}
	if got := b.Wait(1, time.Minute, 0.5); got != time.Minute {
		t.Errorf("with Retry-After of a minute it waits %s", got)
	}
}
