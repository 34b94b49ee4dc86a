// Package service owns the build service: what one builder does for many. It
// decides whose turn it is, that equal orders are built once, what is kept on
// disk, and who may have it. It refuses to know how a source becomes a binary,
// which package builder knows, and that there is such a thing as Kubernetes.
//
// A replica that has lost everything is as good as one that has not, only slower:
// builds are reproducible, so whoever misses something orders it again.
package service

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"goless.io/builder"
	"goless.io/builder/internal/gotool"
	"goless.io/builder/remote"
)

const (
	// defaultMemory is what a build may use unless its order says otherwise, in
	// bytes: the limit of the container that builds in a pod.
	defaultMemory = 768 << 20

	// defaultMaxTimeout is the ceiling for the time of a build.
	defaultMaxTimeout = 10 * time.Minute

	// defaultStoreSize is what is kept on disk, in bytes: some hundred binaries.
	defaultStoreSize = 2 << 30
)

// Config says what a Service works with. Zero values mean the defaults.
type Config struct {
	// Keys are those of the operator too. They are required.
	Keys *remote.Keys

	// Toolchain compiles. It is required.
	Toolchain *gotool.Toolchain

	// Store is the directory for results, on a disk. It is required, and nobody
	// else writes there. StoreSize bounds them, in bytes, 2 GiB by default.
	Store     string
	StoreSize int64

	// Parallel is how many builds go on at a time: one a processor by default,
	// and one more, because one is kept free for whoever has none.
	Parallel int

	// MaxTimeout is the most that a build may take, 10 minutes by default.
	MaxTimeout time.Duration

	// MaxMemory is the most that a build may use, in bytes, 768 MiB by default.
	MaxMemory int64

	// Peers returns the addresses, as host:port, of the other replicas. nil means
	// that there are none. See Lookup.
	Peers func(context.Context) ([]string, error)

	// Log has a line for each build. It is required.
	Log *slog.Logger
}

// Service is one replica of the build service.
type Service struct {
	config  Config
	recipe  string // all of a key but what is in the order
	store   *store
	queue   *queue
	builds  flights
	fetches flights
	news    news
	peers   *http.Client
	metrics *metrics
	door    door

	sharing sync.WaitGroup
	life    context.Context // ends when it is to end
	stop    func()
}

// New opens the store and returns a Service that Serve puts to work.
func New(c Config) (*Service, error) {
	c.StoreSize = cmp.Or(c.StoreSize, defaultStoreSize)
	c.Parallel = cmp.Or(c.Parallel, runtime.GOMAXPROCS(0)+1)
	c.MaxTimeout = cmp.Or(c.MaxTimeout, defaultMaxTimeout)
	c.MaxMemory = cmp.Or(c.MaxMemory, defaultMemory)
	dir, err := filepath.Abs(c.Store) // compilers have other working directories
	if err != nil {
		return nil, fmt.Errorf("finding the store: %w", err)
	}
	store, err := openStore(dir, c.StoreSize, c.Keys)
	if err != nil {
		return nil, err
	}
	arch := cmp.Or(c.Toolchain.Arch, runtime.GOARCH)
	s := &Service{
		config: c,
		recipe: (&builder.Builder{Toolchain: c.Toolchain}).Fingerprint() + " " + runtime.GOOS + "/" + arch,
		store:  store,
		queue:  newQueue(c.Parallel),
		peers:  newPeerClient(c.Keys),
	}
	s.life, s.stop = context.WithCancel(context.Background())
	s.metrics = newMetrics(s)
	return s, nil
}

// key identifies what an order asks for: everything that decides about the bytes,
// and the namespace, so that nobody learns what others build.
func (s *Service) key(o remote.Order) string {
	h := sha256.New()
	for _, part := range []string{"goless.io/build/v1", o.Namespace, s.recipe, o.Source} {
		_, _ = h.Write([]byte(part + "\n")) // only the last part can have lines
	}
	return hex.EncodeToString(h.Sum(nil))
}
