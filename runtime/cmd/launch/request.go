package main

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

const (
	longestWait = 30 * time.Second // of the service, in one answer
	maxSize     = 256 << 20        // of a binary, in bytes; it is memory of the container
)

// try asks for the binary once. The service may let it wait for as long as
// patience lasts.
func (b *binary) try(ctx context.Context, into place, patience time.Duration) (*os.File, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	wait := min(patience, longestWait)
	watchdog := time.AfterFunc(wait+stall, func() { cancel(errStalled) })
	defer watchdog.Stop()

	response, err := b.get(ctx, wait)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // nothing more is read of it
	if err := acceptable(response); err != nil {
		return nil, err
	}
	b.news.Store(fmt.Sprintf("%d bytes of it are on their way", response.ContentLength))
	file, err := into.open()
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(file, watched{response.Body, watchdog}); err != nil {
		_ = file.Close() // it is of no use
		return nil, fmt.Errorf("the download failed: %w", err)
	}
	file, err = into.freeze(file)
	if err == nil {
		err = b.verify(file, response.Header.Get("Goless-Signature"))
	}
	if err != nil {
		_ = file.Close() // as above, or nil
		return nil, err
	}
	return file, nil
}

func (b *binary) get(ctx context.Context, wait time.Duration) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+b.capability)
	request.Header.Set("Prefer", fmt.Sprintf("wait=%d", int(wait.Seconds())))
	response, err := b.transport.RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("cannot reach the build service: %w", err)
	}
	return response, nil
}

// newTransport takes nothing from the environment, which is the function's: its
// proxies are not for this.
func newTransport(recognise func(tls.ConnectionState) error) *http.Transport {
	dialer := net.Dialer{
		Timeout: 3 * time.Second,
		// A node that went away says no goodbye.
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3},
	}
	return &http.Transport{
		DialContext:         dialer.DialContext,
		DisableKeepAlives:   true, // the next try may reach another replica
		DisableCompression:  true,
		TLSHandshakeTimeout: 5 * time.Second,
		TLSClientConfig: &tls.Config{
			MinVersion:         tls.VersionTLS13,
			InsecureSkipVerify: true, // the key alone counts, whoever certifies it and for whichever name
			VerifyConnection:   recognise,
		},
	}
}

// recognise refuses a peer that is not the service.
func (b *binary) recognise(peer tls.ConnectionState) error {
	if key, ok := peer.PeerCertificates[0].PublicKey.(ed25519.PublicKey); !ok || !key.Equal(b.service) {
		return errStranger
	}
	return nil
}

// acceptable says what else than a binary the response is, if so.
func acceptable(response *http.Response) error {
	switch {
	case response.StatusCode == http.StatusOK && response.ContentLength > maxSize:
		return errTooLarge
	case response.StatusCode == http.StatusOK && response.ContentLength > 0:
		return nil
	}
	line, _ := bufio.NewReader(io.LimitReader(response.Body, 512)).ReadString('\n') // for people, if it came
	answer := fmt.Sprintf("the build service answers %s: %s", response.Status, strings.TrimSpace(line))
	switch code := response.StatusCode; {
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return fmt.Errorf("%w (%s)", errRefused, answer)
	case code == http.StatusTooManyRequests || code >= http.StatusInternalServerError:
		return errors.New(answer) // about the service, and not about the binary
	}
	return fmt.Errorf("%w: %s", errAbsent, answer)
}

// watched is a body that must not stall.
type watched struct {
	io.Reader
	watchdog *time.Timer
}

func (w watched) Read(p []byte) (int, error) {
	w.watchdog.Reset(stall)
	return w.Reader.Read(p)
}
