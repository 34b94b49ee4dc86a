// Package buildservice is the server behind the command builder serve: it compiles
// functions for a whole cluster. It takes orders for builds over HTTPS, lets them wait
// their turn in a fair queue, builds equal orders once, and keeps the binaries on disk
// for the pods that fetch them. Package builder does the building itself. This package
// knows nothing about Kubernetes.
//
// A replica may lose all of its data at any time. Builds are reproducible, so clients
// order again what is missing.
package buildservice

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"goless.io/builder"
	"goless.io/builder/internal/dependencies"
	"goless.io/builder/internal/toolchain"
	"goless.io/builder/remote"
)

// The defaults of a Config, which are those of the flags of builder serve too.
const (
	// DefaultMemory is what a build may use unless its order says otherwise, in
	// bytes. The container that builds in a pod has the same limit.
	DefaultMemory = 768 << 20

	// DefaultMaxTimeout is the longest time that a build may take.
	DefaultMaxTimeout = 10 * time.Minute

	// DefaultStoreSize is the size of the results on disk, in bytes. It suffices for
	// some hundred binaries.
	DefaultStoreSize = 2 << 30

	// DefaultDependenciesSize is the size of dependencies on disk, in bytes.
	DefaultDependenciesSize = 1 << 30
)

// Config configures a Service. Zero values mean the defaults.
type Config struct {
	// Keys are those that the operator has too. They are required.
	Keys *remote.Keys

	// Toolchain compiles. It is required.
	Toolchain *toolchain.Toolchain

	// Store is a directory for the results of builds. It is required, New removes it
	// and makes it again, and nobody else may write to it. StoreSize limits the results,
	// in bytes, 2 GiB by default.
	Store     string
	StoreSize int64

	// Dependencies is a directory on the same disk as that of temporary files, in which
	// modules and packages stay for the next build of the same namespace that depends on
	// the same. New removes it and makes it again, and nobody else may write to it. If it
	// is empty, each build begins anew. DependenciesSize limits it, in bytes, 1 GiB by
	// default.
	Dependencies     string
	DependenciesSize int64

	// Parallel is the number of builds that run at a time. By default it is the number
	// of processors plus one, because the last slot is reserved for namespaces that
	// build seldom.
	Parallel int

	// MaxTimeout is the longest time that a build may take, 10 minutes by default.
	MaxTimeout time.Duration

	// MaxMemory is the most memory that a build may use, in bytes, 768 MiB by default. Go
	// vet may take as much beside it, and at most 256 MiB.
	MaxMemory int64

	// Replicas returns the addresses, as host:port, of this replica and of all others.
	// The own address is empty where others do not know this replica yet. If Replicas
	// is nil, this is the only replica. See Lookup.
	Replicas func(context.Context) (own string, others []string, err error)

	// Log gets a line for each build and each download. It is required.
	Log *slog.Logger

	// Version and Commit are those of this program, for the metrics.
	Version, Commit string
}

// Service is one replica of the build service.
type Service struct {
	config      Config
	fingerprint string // everything but the order that decides about the bytes of a binary
	store       *store

	dependencies *dependencies.Store // nil if nothing is kept

	queue   *queue
	builds  jobs
	changed broadcast // a build has begun or ended, or a binary was stored
	metrics *metrics

	downloads downloads

	orders    *remote.Client     // passes orders on to other replicas
	peers     *http.Client       // fetches binaries from other replicas
	fetching  singleflight.Group // of binaries from other replicas, by key
	copying   sync.WaitGroup     // what copies binaries of other replicas
	receiving chan struct{}      // has an element for each binary that is being received

	life context.Context // ends when Serve is to return
	stop func()
}

// New opens the store and returns a Service. Serve makes it work.
func New(c Config) (*Service, error) {
	c.StoreSize = cmp.Or(c.StoreSize, DefaultStoreSize)
	c.DependenciesSize = cmp.Or(c.DependenciesSize, DefaultDependenciesSize)
	c.Parallel = cmp.Or(c.Parallel, runtime.GOMAXPROCS(0)+1)
	c.MaxTimeout = cmp.Or(c.MaxTimeout, DefaultMaxTimeout)
	c.MaxMemory = cmp.Or(c.MaxMemory, DefaultMemory)
	dir, err := filepath.Abs(c.Store) // compilers have other working directories
	if err != nil {
		return nil, fmt.Errorf("finding the store: %w", err)
	}
	store, err := openStore(dir, c.StoreSize)
	if err != nil {
		return nil, err
	}
	arch := cmp.Or(c.Toolchain.Arch, runtime.GOARCH)
	s := &Service{
		config:      c,
		fingerprint: (&builder.Builder{Toolchain: c.Toolchain}).Fingerprint() + " " + runtime.GOOS + "/" + arch,
		store:       store,
		queue:       newQueue(c.Parallel),
		orders:      remote.NewClient("", c.Keys),
		peers:       newPeerClient(c.Keys),
		receiving:   make(chan struct{}, maxReceiving),
	}
	if c.Dependencies != "" {
		if s.dependencies, err = dependencies.Open(c.Dependencies, c.DependenciesSize); err != nil {
			return nil, err
		}
	}
	s.life, s.stop = context.WithCancel(context.Background())
	s.metrics = newMetrics(s)
	return s, nil
}

// key identifies the binary that an order asks for. It is a hash of everything that decides
// about the bytes, of where modules may come from, because a binary must not reach a Function
// which may not have its modules, and of the namespace, so that no namespace learns what
// others build.
func (s *Service) key(o remote.Order) string {
	h := sha256.New()
	parts := []string{"goless.io/build/v1", o.Namespace, s.fingerprint}
	for _, name := range slices.Sorted(maps.Keys(o.Environment)) {
		parts = append(parts, fmt.Sprintf("%s=%q", name, o.Environment[name]))
	}
	for _, part := range append(parts, o.Source) {
		_, _ = h.Write([]byte(part + "\n")) // only the last part can have several lines
	}
	return hex.EncodeToString(h.Sum(nil))
}
