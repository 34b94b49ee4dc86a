package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"goless.io/builder"
	"goless.io/builder/buildapi"
	"goless.io/builder/internal/buildservice"
	"goless.io/builder/internal/sandbox"
	"goless.io/builder/internal/toolchain"
)

const serveExample = `  # serve as deploy/ does in the cluster
  builder serve --listen :8443 --seed-file /etc/goless/build/seed --store /var/lib/goless

  # serve on this machine
  head -c 32 /dev/urandom > seed && builder serve --seed-file seed --store ./store --allow-unconfined`

func newServe(s streams, environ []string) *cobra.Command {
	v := &buildService{streams: s, environ: environ}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the build service of a cluster",
		Long: `Run the build service of a cluster. The operator requests builds, and the pods of
functions fetch the binaries, over HTTPS.

Replicas and the operator share only a seed of 32 random bytes. Results are kept on
disk until the process ends; when the store is full, the least recently used are
removed. The memory and the time of each build are limited as with the build
strategy InPod.

The compiler can access only its own files, and never the seed. This requires the
toolchain of the builder's image and a kernel with Landlock. Without them the
command exits with an error, unless --allow-unconfined is set, which is safe only
if you trust all sources.`,
		Example: serveExample,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return v.run(cmd.Context()) },
	}
	cmd.Flags().StringVar(&v.listen, "listen", "localhost:8443", "`address` to listen on")
	cmd.Flags().StringVar(&v.metrics, "metrics-listen", "", "`address` for Prometheus metrics, over plain HTTP")
	cmd.Flags().StringVar(&v.probes, "probe-listen", "", "`address` for the kubelet's probes, /healthz and /readyz, over plain HTTP")
	cmd.Flags().StringVar(&v.seed, "seed-file", "", "`file` of 32 random bytes, from which all keys are derived")
	cmd.Flags().StringVar(&v.store, "store", "", "`directory` for results and builds, used by this process only; files of an earlier process are removed")
	cmd.Flags().Int64Var(&v.storeSize, "store-size", buildservice.DefaultStoreSize>>20, "maximum size of the results in the store, in `MiB`")
	cmd.Flags().Int64Var(&v.dependenciesSize, "dependencies-size", buildservice.DefaultDependenciesSize>>20, "maximum size of the modules and packages that are cached for later builds of the same namespace, in `MiB`; 0 disables the cache")
	cmd.Flags().IntVar(&v.config.Parallel, "parallel", 0, "maximum number of concurrent builds, each with an equal share of the processors; one slot is reserved for short builds of namespaces with little recent build time (default: the number of processors plus one)")
	cmd.Flags().DurationVar(&v.config.MaxTimeout, "max-timeout", buildservice.DefaultMaxTimeout, "upper limit of the timeout of each build, whatever its Function sets")
	cmd.Flags().Int64Var(&v.maxMemory, "max-memory", buildservice.DefaultMemory>>20, "upper limit of the memory of each build, in `MiB`, whatever its Function sets; go vet may use up to 256 MiB in addition")
	cmd.Flags().StringVar(&v.peers, "peers", "", "`name:port` that resolves to all replicas, which share the builds")
	cmd.Flags().BoolVar(&v.allowUnconfined, "allow-unconfined", false, "build even if the compiler cannot be confined; a source can then read the seed and all other files of this process")
	for _, required := range []string{"seed-file", "store"} {
		_ = cmd.MarkFlagRequired(required) // it is a flag
	}
	return cmd
}

// warmTimeout is shorter than the time after which the kubelet restarts a container whose probes
// fail.
const warmTimeout = 30 * time.Second

type buildService struct {
	streams
	environ              []string
	listen               string
	metrics, probes      string
	seed, store, peers   string
	storeSize, maxMemory int64 // in MiB
	dependenciesSize     int64 // in MiB
	allowUnconfined      bool
	config               buildservice.Config
}

func (v *buildService) run(ctx context.Context) error {
	if err := v.configure(ctx); err != nil {
		return err
	}
	if err := v.clean(); err != nil {
		return err
	}
	built, err := buildservice.New(v.config)
	if err != nil {
		return err
	}
	v.warm(ctx)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", v.listen)
	if err != nil {
		return err
	}
	if note := v.config.Toolchain.Unconfined(); note != "" {
		v.config.Log.Warn(note)
	}
	if checkConfined(v.config.Toolchain) != nil {
		v.config.Log.Warn("the compiler is not confined: sources can read the seed and all other files of this process")
	}
	v.config.Log.Info("serving", "version", version, "address", listener.Addr().String(), "toolchain", v.config.Toolchain.Version)
	return v.serve(ctx, built, listener)
}

// serve serves builds until ctx ends or a listener fails. Metrics and probes are served until the
// last download has finished.
func (v *buildService) serve(ctx context.Context, built *buildservice.Service, listener net.Listener) error {
	group, ctx := errgroup.WithContext(ctx)
	beside, end := context.WithCancel(context.WithoutCancel(ctx))
	group.Go(func() error {
		defer end()
		return built.Serve(ctx, listener)
	})
	group.Go(func() error { return listen(beside, v.metrics, built.ServeMetrics) })
	group.Go(func() error { return listen(beside, v.probes, built.ServeProbes) })
	return group.Wait()
}

// listen serves at address, if it is not empty.
func listen(ctx context.Context, address string, serve func(context.Context, net.Listener) error) error {
	if address == "" {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return serve(ctx, listener)
}

// clean removes what an earlier process left below the store, and sets the directory for temporary
// files. The directories have unique names, because the store may be a directory with other
// content.
func (v *buildService) clean() error {
	store, err := filepath.Abs(v.store)
	if err != nil {
		return fmt.Errorf("cleaning the store: %w", err)
	}
	work, dependencies := filepath.Join(store, "goless-work"), filepath.Join(store, "goless-dependencies")
	v.config.Store = filepath.Join(store, "goless-results")
	if v.dependenciesSize > 0 {
		v.config.Dependencies = dependencies
	}
	for _, dir := range []string{work, dependencies, v.config.Store} {
		if err := v.discard(dir); err != nil {
			return fmt.Errorf("cleaning the store: %w", err)
		}
	}
	if err := os.MkdirAll(work, 0o700); err != nil {
		return fmt.Errorf("cleaning the store: %w", err)
	}
	return os.Setenv("TMPDIR", work)
}

// asideSuffix is part of the names of directories of an earlier process that could not be removed.
const asideSuffix = ".left-"

// discard removes a directory. If that fails, it renames the directory, so that the service can
// start. It also removes directories that were renamed at an earlier start.
func (v *buildService) discard(dir string) error {
	earlier, err := fs.Glob(os.DirFS(filepath.Dir(dir)), filepath.Base(dir)+asideSuffix+"*")
	if err != nil {
		return err
	}
	for _, name := range earlier {
		path := filepath.Join(filepath.Dir(dir), name)
		if err := sandbox.RemoveAll(path); err != nil {
			v.config.Log.Warn("removing files of an earlier process", "directory", path, "error", err)
		}
	}
	err = sandbox.RemoveAll(dir)
	if err == nil {
		return nil
	}
	aside := dir + asideSuffix + strconv.FormatInt(time.Now().UnixNano(), 10)
	if os.Rename(dir, aside) != nil {
		return err // more precise than the error of Rename
	}
	v.config.Log.Warn("removing files of an earlier process", "directory", aside, "error", err)
	return nil
}

// warm builds a small Function, because the first build on a machine takes seconds: the compiler
// and the packages must be read from disk. A failure is only logged; if other builds fail too,
// their clients receive the errors.
func (v *buildService) warm(ctx context.Context) {
	const smallest = "package p\n\nimport \"net/http\"\n\nfunc Handler(http.ResponseWriter, *http.Request) {}\n"
	output := filepath.Join(os.TempDir(), "warm")
	defer os.Remove(output) //nolint:errcheck // it is below the temporary directory
	maker := &builder.Builder{Toolchain: v.config.Toolchain, Timeout: warmTimeout}
	result, err := maker.Build(ctx, []byte(smallest), output)
	if err != nil {
		v.config.Log.Warn("warm-up build failed", "error", err)
		return
	}
	v.config.Log.Info("warm-up build finished", "duration", result.Duration.String())
}

// configure sets the configuration from the flags and the files that they name.
func (v *buildService) configure(ctx context.Context) error {
	if v.storeSize <= 0 || v.dependenciesSize < 0 || v.maxMemory <= 0 || v.config.Parallel < 0 || v.config.MaxTimeout <= 0 {
		return errors.New("--store-size, --max-memory and --max-timeout must be positive, and --dependencies-size and --parallel must not be negative")
	}
	v.config.StoreSize, v.config.DependenciesSize, v.config.MaxMemory = v.storeSize<<20, v.dependenciesSize<<20, v.maxMemory<<20
	v.config.Version, v.config.Commit = version, builtFrom()
	v.config.Log = slog.New(slog.NewJSONHandler(v.err, nil))
	seed, err := os.ReadFile(v.seed)
	if err != nil {
		return fmt.Errorf("reading the seed, which the operator creates at startup: %w", err)
	}
	if v.config.Keys, err = buildapi.NewKeys(seed); err != nil {
		return fmt.Errorf("%s: %w", v.seed, err)
	}
	if v.peers != "" {
		if v.config.Replicas, err = buildservice.Lookup(v.peers); err != nil {
			return fmt.Errorf("--peers: %w", err)
		}
	}
	if v.config.Toolchain, err = toolchain.Find(ctx, v.environ); err != nil {
		return err
	}
	if err := v.config.Toolchain.WithoutDirect(); err != nil {
		return err
	}
	if !v.allowUnconfined {
		return checkConfined(v.config.Toolchain)
	}
	return nil
}

// checkConfined returns an error if the sandbox cannot prevent the compiler from reading the files
// of this process.
func checkConfined(t *toolchain.Toolchain) error {
	switch {
	case !t.Sealed:
		return errors.New("the compiler cannot be confined without the toolchain of the builder's image, and a source could read the seed; run the image that make images publishes, or, if you trust all sources, add --allow-unconfined")
	case !sandbox.ConfinesFiles():
		return errors.New("the kernel or the seccomp profile of this container does not allow Landlock, and without it a source could read the seed; use the build strategy InPod in this cluster, or, if you trust all sources, add --allow-unconfined")
	}
	return nil
}
