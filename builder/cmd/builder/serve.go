package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"goless.io/builder"
	"goless.io/builder/internal/gotool"
	"goless.io/builder/internal/service"
	"goless.io/builder/remote"
)

const serveExample = `  # what deploy/ runs in the cluster
  builder serve --listen :8443 --seed-file /etc/goless/build/seed --store /var/lib/goless

  # on this machine
  head -c 32 /dev/urandom > seed && builder serve --seed-file seed --store ./store`

func newServe(s streams, environ []string) *cobra.Command {
	v := &buildService{streams: s, environ: environ}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Build for many: the build service of a cluster",
		Long: `Build for many: the build service of a cluster. The operator orders binaries, and
the pods of functions fetch them, over HTTPS.

A seed of 32 random bytes is all that replicas and the operator share. Results are
kept on disk, and those that were not used for longest are thrown out. Memory and
time of each build are limited as in the container that builds in a pod.`,
		Example: serveExample,
		Args:    arguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return v.run(cmd.Context()) },
	}
	cmd.Flags().StringVar(&v.listen, "listen", "localhost:8443", "`address` to listen on")
	cmd.Flags().StringVar(&v.metrics, "metrics-listen", "", "`address` to listen on for Prometheus, in plain HTTP")
	cmd.Flags().StringVar(&v.seed, "seed-file", "", "`file` of 32 random bytes, from which all keys are derived")
	cmd.Flags().StringVar(&v.store, "store", "", "`directory` for results and for work, which nobody else writes to")
	cmd.Flags().Int64Var(&v.storeSize, "store-size", 2048, "bound of the results in the store, in `MiB`")
	cmd.Flags().IntVar(&v.config.Parallel, "parallel", 0, "how many builds go on at a time; one of them is kept for namespaces that have none (default one a processor and one more)")
	cmd.Flags().DurationVar(&v.config.MaxTimeout, "max-timeout", 10*time.Minute, "the most that a build may take, whatever is ordered")
	cmd.Flags().Int64Var(&v.maxMemory, "max-memory", 768, "the most that a build may use, in `MiB`, whatever is ordered")
	cmd.Flags().StringVar(&v.peers, "peers", "", "`name:port` of all replicas, which are asked for what is not here")
	for _, required := range []string{"seed-file", "store"} {
		_ = cmd.MarkFlagRequired(required) // it is a flag
	}
	return cmd
}

// warmTimeout is less than the kubelet gives a container before it restarts it.
const warmTimeout = 30 * time.Second

type buildService struct {
	streams
	environ              []string
	listen, metrics      string
	seed, store, peers   string
	storeSize, maxMemory int64 // in MiB
	config               service.Config
}

func (v *buildService) run(ctx context.Context) error {
	if err := v.configure(ctx); err != nil {
		return err
	}
	if err := v.clean(); err != nil {
		return err
	}
	built, err := service.New(v.config)
	if err != nil {
		return err
	}
	v.warm(ctx)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", v.listen)
	if err != nil {
		return err
	}
	for _, note := range v.config.Toolchain.Notes() {
		v.config.Log.Warn(note)
	}
	v.config.Log.Info("serving", "address", listener.Addr().String(), "toolchain", v.config.Toolchain.Version)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	metrics := make(chan error, 1)
	go func() {
		defer stop() // whichever ends first ends both
		metrics <- v.serveMetrics(ctx, built)
	}()
	err = built.Serve(ctx, listener)
	stop()
	return errors.Join(err, <-metrics)
}

// serveMetrics returns when ctx ends.
func (v *buildService) serveMetrics(ctx context.Context, built *service.Service) error {
	if v.metrics == "" {
		<-ctx.Done()
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", v.metrics)
	if err != nil {
		return err
	}
	return built.ServeMetrics(ctx, listener)
}

// clean removes what an earlier process could not, because it was killed, and has
// temporary files made where the next process removes them.
func (v *buildService) clean() error {
	v.config.Store = filepath.Join(v.store, "results")
	work, err := filepath.Abs(filepath.Join(v.store, "work"))
	if err == nil {
		err = os.RemoveAll(work)
	}
	if err == nil {
		err = os.MkdirAll(work, 0o700)
	}
	if err != nil {
		return fmt.Errorf("cleaning the store: %w", err)
	}
	return os.Setenv("TMPDIR", work)
}

// warm builds the smallest Function: on a machine that has just started, the first
// build takes seconds, because compiler and packages have to be read from the disk.
// One that fails is only logged, as the next may not, and somebody is told then.
func (v *buildService) warm(ctx context.Context) {
	if v.config.Toolchain.Slow != "" {
		return // it would take minutes
	}
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

// configure makes a configuration of flags and files.
func (v *buildService) configure(ctx context.Context) error {
	if v.storeSize <= 0 || v.maxMemory <= 0 || v.config.Parallel < 0 || v.config.MaxTimeout <= 0 {
		return errors.New("bounds must be positive, see: builder serve --help")
	}
	v.config.StoreSize, v.config.MaxMemory = v.storeSize<<20, v.maxMemory<<20
	v.config.Log = slog.New(slog.NewJSONHandler(v.err, nil))
	seed, err := os.ReadFile(v.seed)
	if err != nil {
		return fmt.Errorf("reading the seed, which the operator makes when it starts: %w", err)
	}
	if v.config.Keys, err = remote.NewKeys(seed); err != nil {
		return fmt.Errorf("%s: %w", v.seed, err)
	}
	if v.peers != "" {
		if v.config.Peers, err = service.Lookup(v.peers); err != nil {
			return fmt.Errorf("--peers: %w", err)
		}
	}
	if v.config.Toolchain, err = gotool.Find(ctx, v.environ); err != nil {
		return err
	}
	if err := v.config.Toolchain.WithoutDirect(); err != nil {
		return err
	}
	if v.config.Toolchain.Sealed && !gotool.Confines() {
		return errors.New("the kernel, or the seccomp profile of this container, keeps the builder from Landlock, and without it a source could read the seed: build with the strategy InPod here")
	}
	return nil
}
