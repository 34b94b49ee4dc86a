// Package caller is a Function that sends requests from inside the cluster, through DNS and the
// ClusterIPs of Services, and reports how many were lost.
package caller

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// A Request is a GET to send.
type Request struct {
	URL string

	// After is the time of the request since the beginning.
	After time.Duration
}

// An Outcome is the result of the requests. A request without status 200 is lost.
type Outcome struct {
	Answered, Lost int

	// Errors contains those of the first lost requests.
	Errors []string

	// Took contains, for each request, the time from when it was due until its response, in
	// milliseconds.
	Took []int
}

const (
	maxErrors = 10

	// patience is the timeout of a request. It is longer than activators hold one.
	patience = 90 * time.Second
)

// Handler sends the requests in its body at their times, and responds with their outcome.
func Handler(w http.ResponseWriter, r *http.Request) {
	var requests []Request
	if err := json.NewDecoder(r.Body).Decode(&requests); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	outcome := send(r.Context(), requests)
	json.NewEncoder(w).Encode(outcome) //nolint:errcheck // who has gone does not read it
}

// send uses a new connection for every second request, and reuses those of the others.
func send(ctx context.Context, requests []Request) (outcome Outcome) {
	clients := []*http.Client{newClient(), newClient()}
	clients[0].Transport.(*http.Transport).DisableKeepAlives = true //nolint:forcetypeassert // as newClient makes it
	began := time.Now()
	outcome.Took = make([]int, len(requests))
	var mu sync.Mutex
	var all sync.WaitGroup
	for i, request := range requests {
		time.Sleep(time.Until(began.Add(request.After)))
		all.Go(func() {
			err := get(ctx, clients[i%2], request.URL)
			mu.Lock()
			defer mu.Unlock()
			outcome.Took[i] = int(time.Since(began.Add(request.After)).Milliseconds())
			if err == nil {
				outcome.Answered++
				return
			}
			outcome.Lost++
			if len(outcome.Errors) < maxErrors {
				outcome.Errors = append(outcome.Errors, fmt.Sprintf("after %s: %v", time.Since(began).Round(time.Millisecond), err))
			}
		})
	}
	all.Wait()
	return outcome
}

// newClient returns a client that resolves each name once, so that the resolver is not
// measured.
func newClient() *http.Client {
	var addresses sync.Map
	dialer := &net.Dialer{Timeout: patience}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		known, ok := addresses.Load(host)
		if !ok {
			found, err := net.DefaultResolver.LookupHost(ctx, host)
			if err != nil {
				return nil, err
			}
			known, _ = addresses.LoadOrStore(host, found[0])
		}
		return dialer.DialContext(ctx, network, net.JoinHostPort(known.(string), port)) //nolint:forcetypeassert // as it is stored
	}
	return &http.Client{Timeout: patience, Transport: &http.Transport{DialContext: dial}}
}

func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // it is read below
	body, err := io.ReadAll(io.LimitReader(response.Body, 200))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return err
}
