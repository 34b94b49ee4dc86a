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
	"goless.io/builder/internal/buildservice"
	"goless.io/builder/internal/sandbox"
	"goless.io/builder/internal/toolchain"
	"goless.io/builder/remote"
)

const serveExample = `  # what deploy/ runs in the cluster
  builder serve --listen :8443 --seed-file /etc/goless/build/seed --store /var/lib/goless

  # on this machine
  head -c 32 /dev/urandom > seed && builder serve --seed-file seed --store ./store --allow-unconfined`

func newServe(s streams, environ []string) *cobra.Command {
	v := &buildService{streams: s, environ: environ}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Build for many: the build service of a cluster",
		Long: `Build for many: the build service of a cluster. The operator orders binaries, and
the pods of functions fetch them, over HTTPS.

A seed of 32 random bytes is all that replicas and the operator share. Results are
kept on disk until the process ends; those that were not used for the longest time
are removed first. Memory and time of each build are limited as in the container
that builds in a pod.

The compiler is kept from all files but its own, the seed before all. That needs the
toolchain of the builder's image, and a kernel with Landlock. Without them it refuses
to start, unless --allow-unconfined says that all sources are your own.`,
		Example: serveExample,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return v.run(cmd.Context()) },
	}
	cmd.Flags().StringVar(&v.listen, "listen", "localhost:8443", "`address` to listen on")
	cmd.Flags().StringVar(&v.metrics, "metrics-listen", "", "`address` to listen on for Prometheus, in plain HTTP")
	cmd.Flags().StringVar(&v.probes, "probe-listen", "", "`address` to listen on for the kubelet's probes, /healthz and /readyz, in plain HTTP")
	cmd.Flags().StringVar(&v.seed, "seed-file", "", "`file` of 32 random bytes, from which all keys are derived")
	cmd.Flags().StringVar(&v.store, "store", "", "`directory` for results and for work, which nobody else writes to; what another process has left there is removed")
	cmd.Flags().Int64Var(&v.storeSize, "store-size", buildservice.DefaultStoreSize>>20, "size of the results in the store, in `MiB`")
	cmd.Flags().Int64Var(&v.dependenciesSize, "dependencies-size", buildservice.DefaultDependenciesSize>>20, "size of the modules and packages in the store that builds leave for the next ones of their namespace, in `MiB`; 0 keeps none")
	cmd.Flags().IntVar(&v.config.Parallel, "parallel", 0, "how many builds go on at a time, each with an equal part of the processors; the last place is kept for namespaces that build seldom (default one a processor and one more)")
	cmd.Flags().DurationVar(&v.config.MaxTimeout, "max-timeout", buildservice.DefaultMaxTimeout, "the longest time that a build may take, whatever is ordered")
	cmd.Flags().Int64Var(&v.maxMemory, "max-memory", buildservice.DefaultMemory>>20, "the most memory that a build may use, in `MiB`, whatever is ordered; go vet takes up to 256 beside it")
	cmd.Flags().StringVar(&v.peers, "peers", "", "`name:port` of all replicas, which agree on who builds what")
	cmd.Flags().BoolVar(&v.allowUnconfined, "allow-unconfined", false, "build also where the compiler cannot be confined, so that a source can read the seed and all else that this process can")
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
		v.config.Log.Warn("the compiler is not confined: a source can read the seed, and all else that this process can")
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
			v.config.Log.Warn("removing what an earlier process has left", "directory", path, "error", err)
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
	v.config.Log.Warn("removing what an earlier process has left", "directory", aside, "error", err)
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
		v.config.Log.Warn("the first build fails", "error", err)
		return
	}
	v.config.Log.Info("warm", "duration", result.Duration.String())
}

// configure sets the configuration from the flags and the files that they name.
func (v *buildService) configure(ctx context.Context) error {
	if v.storeSize <= 0 || v.dependenciesSize < 0 || v.maxMemory <= 0 || v.config.Parallel < 0 || v.config.MaxTimeout <= 0 {
		return errors.New("bounds must be positive, see: builder serve --help")
	}
	v.config.StoreSize, v.config.DependenciesSize, v.config.MaxMemory = v.storeSize<<20, v.dependenciesSize<<20, v.maxMemory<<20
	v.config.Version, v.config.Commit = version, builtFrom()
	v.config.Log = slog.New(slog.NewJSONHandler(v.err, nil))
	seed, err := os.ReadFile(v.seed)
	if err != nil {
		return fmt.Errorf("reading the seed, which the operator makes when it starts: %w", err)
	}
	if v.config.Keys, err = remote.NewKeys(seed); err != nil {
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
		return errors.New("the toolchain is not the complete one of the builder's image, so the compiler cannot be confined, and a source could read the seed: run the image that make images publishes, or, where all sources are your own, add --allow-unconfined")
	case !sandbox.ConfinesFiles():
		return errors.New("the kernel, or the seccomp profile of this container, keeps the builder from Landlock, and without it a source could read the seed: build with the strategy InPod here, or, where all sources are your own, add --allow-unconfined")
	}
	return nil
}
