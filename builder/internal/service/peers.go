package service

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"goless.io/builder/internal/gotool"
	"goless.io/builder/remote"
)

const (
	// peerWait is how long a replica is asked to wait for a binary, and peerPause
	// the time between two questions that it could not answer.
	peerWait  = 30 * time.Second
	peerPause = time.Second

	// peerSilence is how long a replica may take to say that it has no binary.
	peerSilence = peerWait + 10*time.Second
)

// Lookup returns a function for Config.Peers: the addresses behind a name, this
// machine's own left out.
func Lookup(hostport string) (func(context.Context) ([]string, error), error) {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) ([]string, error) {
		addresses, err := net.DefaultResolver.LookupHost(ctx, host)
		if err != nil {
			return nil, err
		}
		own, err := net.InterfaceAddrs()
		if err != nil {
			return nil, err
		}
		mine := map[string]bool{}
		for _, address := range own {
			if network, ok := address.(*net.IPNet); ok {
				mine[network.IP.String()] = true
			}
		}
		var others []string
		for _, address := range addresses {
			if !mine[address] {
				others = append(others, net.JoinHostPort(address, port))
			}
		}
		return others, nil
	}, nil
}

func newPeerClient(keys *remote.Keys) *http.Client {
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig:       keys.ClientTLS(),
		TLSHandshakeTimeout:   10 * time.Second,
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		ResponseHeaderTimeout: peerSilence,
		ExpectContinueTimeout: 5 * time.Second,
		MaxIdleConnsPerHost:   4,
		IdleConnTimeout:       15 * time.Second, // before the other side does
	}}
}

// ask begins to ask the other replicas for a binary, until it is stored here or
// nobody waits any more, which is when the function that it returns is called.
func (s *Service) ask(key string) (leave func()) {
	going, err := s.fetches.start(key, func() (func(context.Context, *flight), error) {
		return func(ctx context.Context, _ *flight) {
			for ctx.Err() == nil && !s.fetchAny(ctx, key, peerWait) {
				pause(ctx, peerPause)
			}
		}, nil
	})
	if err != nil {
		return func() {}
	}
	return func() { s.fetches.leave(key, going) }
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// fetchAny asks all other replicas at once, who may wait for so long, and takes
// what the first one has.
func (s *Service) fetchAny(ctx context.Context, key string, wait time.Duration) bool {
	if s.config.Peers == nil {
		return false
	}
	addresses, err := s.config.Peers(ctx)
	if err != nil {
		s.config.Log.Debug("looking for replicas", "error", err)
		return false
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var asked sync.WaitGroup
	results := make(chan error, len(addresses))
	for _, address := range addresses {
		asked.Go(func() { results <- s.fetch(ctx, address, key, wait) })
	}
	defer asked.Wait()
	defer cancel()
	for range addresses {
		err := <-results
		if err == nil {
			return true
		}
		s.config.Log.Debug("asking a replica", "key", short(key), "error", err)
	}
	return false
}

// fetch stores the binary that the replica at address has for key.
func (s *Service) fetch(ctx context.Context, address, key string, wait time.Duration) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+remote.BinariesPath+key, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+s.config.Keys.Capability(key))
	request.Header.Set("Prefer", "wait="+strconv.Itoa(int(wait.Seconds())))
	request.Header.Set(peerHeader, "1")
	response, err := s.peers.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	if response.StatusCode != http.StatusOK {
		_, _ = io.CopyN(io.Discard, response.Body, 1<<10) // so that the connection lives on
		return fmt.Errorf("it answers %s", response.Status)
	}
	known, err := recordOf(response.Header.Get(recordHeader))
	if err != nil {
		return fmt.Errorf("it may be of another version: %w", err)
	}
	return s.receive(key, known, response.Body)
}

// receive stores what another replica has built, when it is that.
func (s *Service) receive(key string, r record, body io.Reader) error {
	dir, err := s.store.temporary()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the next process does it otherwise
	file, err := os.Create(filepath.Join(dir, "server"))
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // what counts is checked below
	if r.Size, err = io.Copy(file, io.LimitReader(body, gotool.MaxFileSize+1)); err != nil {
		return fmt.Errorf("fetching the binary: %w", err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	content, err := hash(file)
	if err != nil {
		return err
	}
	if err := s.config.Keys.Verify(key, content, r.Signature); err != nil {
		return err
	}
	if err := s.store.put(key, file.Name(), r); err != nil {
		return err
	}
	s.news.tell()
	return nil
}
