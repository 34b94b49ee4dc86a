// Package buildservice implements the server that "builder serve" runs. The server compiles
// functions for a cluster. It:
//
//   - accepts build orders over HTTPS,
//   - queues them fairly by namespace,
//   - builds equal orders once,
//   - keeps the binaries on disk for the pods that fetch them.
//
// Package builder does the compilation. Package buildservice does not use Kubernetes.
//
// A replica may lose all its data at any time: builds are reproducible, and clients request missing
// binaries again.
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
	"goless.io/builder/buildapi"
	"goless.io/builder/internal/depcache"
	"goless.io/builder/internal/toolchain"
)

// Defaults of Config, and of the flags of "builder serve".
const (
	// DefaultMemory is the memory limit of a build whose order does not set one, in bytes. The
	// container that builds in a pod has the same limit.
	DefaultMemory = 768 << 20

	// DefaultMaxTimeout is the default of Config.MaxTimeout.
	DefaultMaxTimeout = 10 * time.Minute

	// DefaultStoreSize is the default size limit of the stored results, in bytes. It suffices for
	// several hundred binaries.
	DefaultStoreSize = 2 << 30

	// DefaultDependenciesSize is the default size limit of the stored dependencies, in bytes.
	DefaultDependenciesSize = 1 << 30
)

// Config configures a Service. A zero value selects the default.
type Config struct {
	// Keys are shared with the operator. Required.
	Keys *buildapi.Keys

	// Toolchain compiles the sources. Required.
	Toolchain *toolchain.Toolchain

	// Store is the directory for the results of builds. Required. New deletes and recreates it; no
	// other process may write to it. StoreSize limits the size of the results, in bytes. Default: 2
	// GiB.
	Store     string
	StoreSize int64

	// Dependencies is the directory that keeps modules and compiled packages for the next build of
	// the same namespace with the same dependencies. It must be on the same disk as the directory
	// for temporary files. New deletes and recreates it; no other process may write to it. Default:
	// empty, which means that no dependencies are kept. DependenciesSize limits its size, in bytes.
	// Default: 1 GiB.
	Dependencies     string
	DependenciesSize int64

	// Parallel is the number of concurrent builds. Default: one for each processor, and one slot
	// that is reserved for short builds of namespaces with little recent build time.
	Parallel int

	// MaxTimeout is the upper limit for the timeout of a build. Default: 10 minutes.
	MaxTimeout time.Duration

	// MaxMemory is the upper limit for the memory of a build, in bytes. Go vet may use as much in
	// addition, but at most 256 MiB. Default: 768 MiB.
	MaxMemory int64

	// Replicas returns the addresses (host:port) of this replica and of all others. own is empty
	// until this replica is listed, for example in DNS. Default: nil, which means that this is the
	// only replica. See Lookup.
	Replicas func(context.Context) (own string, others []string, err error)

	// Log receives one line for each build and each download. Required.
	Log *slog.Logger

	// Version and Commit of this program, for the metrics.
	Version, Commit string
}

// Service is a replica of the build service.
type Service struct {
	config Config
	store  *store

	// The fingerprints are everything besides the order that determines the bytes of a binary, and
	// of a binary with tests.
	fingerprint, testsFingerprint string

	dependencies *depcache.Store // nil if no dependencies are kept

	queue   *queue
	builds  jobs
	changed broadcast // notified when a build starts or ends, and when a binary is stored
	metrics *metrics

	downloads downloads

	orders    *buildapi.Client   // forwards orders to other replicas
	accept    time.Duration      // acceptTimeout; tests change it
	lost      sync.Map           // when replicas were lost after they had accepted an order, by lostOrder
	peers     *http.Client       // fetches binaries from other replicas
	fetching  singleflight.Group // deduplicates fetches from other replicas, by key
	copying   sync.WaitGroup     // goroutines that copy binaries from other replicas
	receiving chan struct{}      // semaphore for binaries that are being received

	life context.Context // cancelled when Serve has to return
	stop func()
}

// New opens the store and returns a Service. Call Serve to start it.
func New(c Config) (*Service, error) {
	c.StoreSize = cmp.Or(c.StoreSize, DefaultStoreSize)
	c.DependenciesSize = cmp.Or(c.DependenciesSize, DefaultDependenciesSize)
	c.Parallel = cmp.Or(c.Parallel, runtime.GOMAXPROCS(0)+1)
	c.MaxTimeout = cmp.Or(c.MaxTimeout, DefaultMaxTimeout)
	c.MaxMemory = cmp.Or(c.MaxMemory, DefaultMemory)
	dir, err := filepath.Abs(c.Store) // compilers run in other working directories
	if err != nil {
		return nil, fmt.Errorf("finding the store: %w", err)
	}
	store, err := openStore(dir, c.StoreSize)
	if err != nil {
		return nil, err
	}
	platform := " " + runtime.GOOS + "/" + cmp.Or(c.Toolchain.Arch, runtime.GOARCH)
	s := &Service{
		config:    c,
		store:     store,
		queue:     newQueue(c.Parallel),
		orders:    buildapi.NewClient("", c.Keys),
		accept:    acceptTimeout,
		peers:     newPeerClient(c.Keys),
		receiving: make(chan struct{}, maxReceiving),

		fingerprint:      (&builder.Builder{Toolchain: c.Toolchain}).Fingerprint() + platform,
		testsFingerprint: (&builder.Builder{Toolchain: c.Toolchain, Tests: true}).Fingerprint() + platform,
	}
	if c.Dependencies != "" {
		if s.dependencies, err = depcache.Open(c.Dependencies, c.DependenciesSize); err != nil {
			return nil, err
		}
	}
	s.life, s.stop = context.WithCancel(context.Background())
	s.metrics = newMetrics(s)
	return s, nil
}

// key identifies the binary for an order. It is a hash of:
//
//   - everything that determines the bytes of the binary,
//   - where modules may come from, so that a binary does not reach a Function that may not use
//     its modules,
//   - the namespace, so that no namespace learns what others build.
func (s *Service) key(o buildapi.Order) string {
	h := sha256.New()
	fingerprint := s.fingerprint
	if o.Tests {
		fingerprint = s.testsFingerprint
	}
	parts := []string{"goless.io/build/v1", o.Namespace, fingerprint}
	for _, name := range slices.Sorted(maps.Keys(o.Environment)) {
		parts = append(parts, fmt.Sprintf("%s=%q", name, o.Environment[name]))
	}
	for _, part := range append(parts, o.Source) {
		_, _ = h.Write([]byte(part + "\n")) // only the last part can have several lines
	}
	return hex.EncodeToString(h.Sum(nil))
}
