package main

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

const (
	maxRequestWait = 30 * time.Second // limit of the wait for one response
	maxSize        = 256 << 20        // of a binary, in bytes; it uses memory of the container
)

// download requests the binary once. The build service may wait for the binary up to maxWait
// before it responds.
func (b *binary) download(ctx context.Context, maxWait time.Duration) (*os.File, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	wait := max(min(maxWait, maxRequestWait), time.Second)
	watchdog := time.AfterFunc(wait+readTimeout, func() { cancel(errStalled) })
	defer watchdog.Stop()

	response, err := b.get(ctx, wait)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // no more is read
	if err := checkResponse(response); err != nil {
		return nil, err
	}
	b.state.Store(fmt.Sprintf("downloading %d bytes", response.ContentLength))
	file, err := inMemory()
	if err != nil {
		return nil, err
	}
	hash := sha256.New() // no other process can write to the file
	if _, err := io.Copy(io.MultiWriter(file, hash), watchedReader{response.Body, watchdog}); err != nil {
		_ = file.Close() // it is discarded
		return nil, fmt.Errorf("downloading the binary: %w", err)
	}
	if err := b.verify(hash.Sum(nil), response.Header.Get("Goless-Signature")); err != nil {
		_ = file.Close() // it is discarded
		return nil, err
	}
	return seal(file)
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

// newTransport returns a transport that ignores the proxies in the environment, because they
// are meant for the function.
func newTransport(verify func(tls.ConnectionState) error) *http.Transport {
	return &http.Transport{
		DialContext:         newDialer().DialContext,
		DisableKeepAlives:   true, // the next attempt may reach another replica
		DisableCompression:  true,
		TLSHandshakeTimeout: 5 * time.Second,
		TLSClientConfig: &tls.Config{
			MinVersion:         tls.VersionTLS13,
			InsecureSkipVerify: true, // VerifyConnection compares the key instead
			VerifyConnection:   verify,
		},
	}
}

// verifyServer rejects a server with another key.
func (b *binary) verifyServer(peer tls.ConnectionState) error {
	if key, ok := peer.PeerCertificates[0].PublicKey.(ed25519.PublicKey); !ok || !key.Equal(b.service) {
		return errOtherKey
	}
	return nil
}

// checkResponse returns an error unless the response contains a binary.
func checkResponse(response *http.Response) error {
	switch {
	case response.StatusCode == http.StatusOK && response.ContentLength > maxSize:
		return errTooLarge
	case response.StatusCode == http.StatusOK && response.ContentLength > 0:
		return nil
	}
	line, _ := bufio.NewReader(io.LimitReader(response.Body, 512)).ReadString('\n') // it may be empty
	answer := fmt.Sprintf("the build service answers %s: %s", response.Status, strings.TrimSpace(line))
	switch code := response.StatusCode; {
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return fmt.Errorf("%w (%s)", errRefused, answer)
	case code == http.StatusTooManyRequests || code >= http.StatusInternalServerError:
		return errors.New(answer) // says nothing about the binary
	}
	return fmt.Errorf("%w: %s", errAbsent, answer)
}

// A watchedReader restarts its watchdog at each read.
type watchedReader struct {
	io.Reader
	watchdog *time.Timer
}

func (w watchedReader) Read(p []byte) (int, error) {
	w.watchdog.Reset(readTimeout)
	return w.Reader.Read(p)
}
