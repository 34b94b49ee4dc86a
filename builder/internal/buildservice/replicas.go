package buildservice

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"golang.org/x/tools/txtar"

	"goless.io/builder/buildapi"
	"goless.io/builder/internal/depcache"
	"goless.io/builder/internal/sandbox"
	"goless.io/builder/internal/testrunner"
)

// The replicas share the work by rendezvous hashing. Each pair of a key and a replica has a hash,
// and the replica with the highest hash builds the key. Another replica forwards orders for the key
// to the replicas with higher hashes, the highest first, until one accepts it. If none does, it
// builds the key itself. As all replicas know the same addresses, a key is built once. While they
// know different addresses, and for a minute after a replica was lost while it built the key, a key may
// be built twice, with the same bytes.
//
// Pods ask any replica, which asks all others for what it does not have. Binaries that are lost
// with a replica are built again.

const (
	// lookupTimeout is the timeout for looking up the replicas.
	lookupTimeout = 2 * time.Second

	// acceptTimeout is how long a replica may take to accept an order.
	acceptTimeout = 3 * time.Second

	// lostPause is how long orders for a key are not forwarded to a replica that accepted one and was
	// lost.
	lostPause = time.Minute

	// peerPause is the delay before other replicas are asked again after none has sent a binary.
	peerPause = time.Second

	// maxReceiving limits the binaries that are received from other replicas concurrently.
	maxReceiving = 4
)

// peerWait is how long another replica is asked to wait for a binary. It is shorter than the requests
// of pods, so that they learn whether that replica compiles. Tests change it.
var peerWait = 10 * time.Second

// Lookup returns a function for Config.Replicas that resolves the name of a headless Service. It
// recognizes this replica by the IP addresses of the local network interfaces.
func Lookup(hostport string) (func(context.Context) (own string, others []string, err error), error) {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (own string, others []string, err error) {
		addresses, err := net.DefaultResolver.LookupHost(ctx, host)
		if err != nil {
			return "", nil, err
		}
		interfaces, err := net.InterfaceAddrs()
		if err != nil {
			return "", nil, err
		}
		for _, address := range addresses {
			mine := slices.ContainsFunc(interfaces, func(a net.Addr) bool {
				network, ok := a.(*net.IPNet)
				return ok && network.IP.String() == address
			})
			if mine {
				own = net.JoinHostPort(address, port)
			} else {
				others = append(others, net.JoinHostPort(address, port))
			}
		}
		return own, others, nil
	}, nil
}

// replicas returns the addresses of this replica and of the others. own is empty until this replica
// is listed.
func (s *Service) replicas(ctx context.Context) (own string, others []string) {
	if s.config.Replicas == nil {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	own, others, err := s.config.Replicas(ctx)
	if err != nil {
		s.config.Log.Debug("looking up the replicas", "error", err)
		return "", nil
	}
	return own, others
}

// before returns the addresses of the replicas that precede this one for key, in order. While the
// other replicas do not know this replica, before returns the addresses of all of them.
func (s *Service) before(ctx context.Context, key string) []string {
	own, others := s.replicas(ctx)
	if own != "" {
		others = slices.DeleteFunc(others, func(address string) bool { return weight(key, address) < weight(key, own) })
	}
	slices.SortFunc(others, func(a, b string) int { return strings.Compare(weight(key, b), weight(key, a)) })
	return others
}

// affinityKey returns the key for ranking the replicas for an order. If the source requires
// modules, the key is the same for all sources of the namespace with the same requirements, so that
// the replica that has these modules builds them.
func affinityKey(key string, o buildapi.Order) string {
	var requirements []string
	for _, file := range txtar.Parse([]byte(o.Source)).Files {
		if file.Name == "go.mod" || file.Name == "go.sum" {
			requirements = append(requirements, string(file.Data))
		}
	}
	if requirements == nil {
		return key
	}
	return depcache.Key(o.Namespace, requirements...)
}

// weight returns the hash of a key and a replica.
func weight(key, address string) string {
	sum := sha256.Sum256([]byte(key + " " + address))
	return string(sum[:])
}

// forward requests the build from the replicas that precede this one, one after another, until one
// accepts the order. It passes the events of that replica to notify, and reports whether a replica has
// accepted the order or ctx has ended.
//
// The source is removed from o when a replica accepts the order, because builds may be queued there for
// minutes, and only the queue of that replica counts their sources. If that replica is lost during the
// build, there is no report, and the client sends its order again. This replica then does not forward it
// to the lost one.
func (s *Service) forward(ctx context.Context, key string, o *buildapi.Order, notify func(buildapi.Event)) bool {
	for _, address := range s.before(ctx, affinityKey(key, *o)) {
		if at, ok := s.lost.Load(lostOrder{address, key}); ok && time.Since(at.(time.Time)) < lostPause {
			continue
		}
		accepted, err := s.orderFrom(ctx, address, key, o, notify)
		if err == nil || ctx.Err() != nil {
			return true
		}
		s.config.Log.Info("a replica returned no report", "key", short(key), "replica", address, "accepted", accepted, "error", err)
		if accepted {
			if errors.Is(err, buildapi.ErrBusy) {
				notify(buildapi.Event{Key: key, Tests: o.Tests, Dropped: true})
			} else {
				s.markLost(lostOrder{address, key})
			}
			return true
		}
	}
	return false
}

// A lostOrder is an order for a key that a replica accepted, before it was lost.
type lostOrder struct{ address, key string }

// markLost records a lost order, and forgets those that were lost long ago.
func (s *Service) markLost(order lostOrder) {
	s.lost.Range(func(other, at any) bool {
		if time.Since(at.(time.Time)) >= lostPause {
			s.lost.Delete(other)
		}
		return true
	})
	s.lost.Store(order, time.Now())
}

// orderFrom requests a build from another replica. It removes the source from o when the replica accepts
// the order.
func (s *Service) orderFrom(ctx context.Context, address, key string, o *buildapi.Order, notify func(buildapi.Event)) (accepted bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(s.accept, func() {
		cancel(fmt.Errorf("order not accepted within %s", s.accept))
	})
	defer late.Stop()
	forwarded := *o
	forwarded.Key = key
	_, err = s.orders.At("https://"+address).Build(ctx, forwarded, func(event buildapi.Event) {
		if !accepted && !late.Stop() {
			return // too late; ctx is canceled
		}
		accepted, o.Source = true, ""
		notify(event)
	})
	if err == nil && !accepted {
		err = context.Cause(ctx) // too late
	}
	return accepted, err
}

// newPeerClient returns a client that fetches binaries from other replicas.
func newPeerClient(keys *buildapi.Keys) *http.Client {
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig:       keys.ClientTLS(),
		TLSHandshakeTimeout:   10 * time.Second,
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		ResponseHeaderTimeout: peerWait + 5*time.Second,
		MaxIdleConnsPerHost:   4,
		IdleConnTimeout:       15 * time.Second, // less than that of the server
	}}
}

// fetch starts to fetch a binary from the other replicas unless a fetch is in progress. The channel
// receives a value when the binary is stored, or when a retry makes sense.
func (s *Service) fetch(key string) <-chan singleflight.Result {
	return s.fetching.DoChan(key, func() (any, error) {
		s.copying.Add(1)
		defer s.copying.Done()
		err := s.fetchAny(s.life, key)
		if err != nil {
			s.config.Log.Debug("fetching from the other replicas", "key", short(key), "error", err)
			select {
			case <-time.After(peerPause):
			case <-s.life.Done():
			}
		}
		return nil, err
	})
}

// fetchAny asks all other replicas in parallel and stores the binary of the first one that has it.
func (s *Service) fetchAny(ctx context.Context, key string) error {
	_, addresses := s.replicas(ctx)
	ctx, cancel := context.WithCancel(ctx)
	var asked sync.WaitGroup
	defer asked.Wait()
	defer cancel()
	results := make(chan error, len(addresses))
	for _, address := range addresses {
		asked.Go(func() { results <- s.fetchFrom(ctx, address, key) })
	}
	err := errors.New("no other replica has the binary")
	for range addresses {
		failed := <-results
		if failed == nil {
			return nil
		}
		err = errors.Join(err, failed)
	}
	return err
}

// fetchFrom stores the binary that the replica at address has for key. That replica may wait until
// the binary is built.
func (s *Service) fetchFrom(ctx context.Context, address, key string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+buildapi.BinariesPath+key, nil)
	if err != nil {
		return err
	}
	request.Header.Set(peerHeader, s.config.Keys.Token())
	request.Header.Set("Authorization", "Bearer "+s.config.Keys.Capability(key))
	request.Header.Set("Prefer", "wait="+strconv.Itoa(int(peerWait.Seconds())))
	response, err := s.peers.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	if response.StatusCode != http.StatusOK {
		_, _ = io.CopyN(io.Discard, response.Body, 1<<10) // so that the connection is reused
		if response.Header.Get(compilingHeader) != "" {
			return fmt.Errorf("%s: %w", address, errCompiling)
		}
		return fmt.Errorf("%s returned %s", address, response.Status)
	}
	known, err := resultOf(response.Header.Get(resultHeader))
	if err != nil {
		return fmt.Errorf("%s may have another version: %w", address, err)
	}
	select {
	case s.receiving <- struct{}{}:
		defer func() { <-s.receiving }()
	case <-ctx.Done():
		return ctx.Err()
	}
	timeout := transferTimeout(known.Size)
	defer time.AfterFunc(timeout, func() { cancel(fmt.Errorf("%s did not send the binary within %s", address, timeout)) }).Stop()
	if err := s.receive(key, known, response.Body); err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	return nil
}

// receive verifies the signature of a binary that another replica has built, and stores it.
func (s *Service) receive(key string, r result, body io.Reader) error {
	if r.Size < 0 || r.Size > max(sandbox.MaxFileSize, testrunner.MaxSize) {
		return fmt.Errorf("the binary has %d bytes, more than the limit of builds", r.Size)
	}
	release := s.store.reserve(r.Size)
	defer release()
	dir, err := s.store.temporary()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a restart does it otherwise
	file, err := os.Create(filepath.Join(dir, "server"))
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // its content is checked below
	if _, err := io.CopyN(file, body, r.Size); err != nil {
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
	release()
	if err := s.store.put(key, file.Name(), r); err != nil {
		return err
	}
	s.changed.notify()
	return nil
}
