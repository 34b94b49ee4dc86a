package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"goless.io/builder"
	"goless.io/builder/internal/devserver"
	"goless.io/builder/internal/format"
	"goless.io/builder/internal/manifest"
	"goless.io/builder/internal/source"
	"goless.io/builder/internal/toolchain"
)

// The default ports of the runtime of functions.
const (
	defaultPort      = 8080
	defaultAdminPort = 9090
)

const runExample = `  # serve a Function on its serverPort, and reload it on save
  builder run hello.yaml

  # serve a Go module on other ports
  builder run --port 3000 --admin-port 3001 .

  # set a variable that comes from a Secret in the cluster
  TOKEN=secret builder run hello.yaml`

func newRun(s streams, environ []string) *cobra.Command {
	r := &runner{diagnostics: diagnostics{streams: s}, environ: environ}
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Serve a Function on this machine, and reload it on save",
		Long: `Serve a Function on this machine. It is validated and compiled as in the cluster,
and runs with the same runtime. When FILE or a file of the directory is saved, it
is compiled, and the old version serves until that succeeds. Then the old version
finishes its running requests, for at most DRAIN_TIMEOUT, while new requests wait
for the new version. The command sets DRAIN_TIMEOUT to 10s unless it is already
set; the default of the runtime is 20s.

A function that exits is restarted after 1 second, then after longer delays of at
most 30 seconds. While no version runs, because it exited or does not compile,
requests and probes receive 503 with the error. If spec.serverPort changes, the
port changes too, unless --port is set.

The function inherits the environment of this command. Variables of spec.env are
added unless they are already set. Ctrl-C stops the function.`,
		Example:           runExample,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeFiles,
		RunE:              func(cmd *cobra.Command, args []string) error { return r.run(cmd, args[0]) },
	}
	r.addFlag(cmd)
	cmd.Flags().StringVar(&r.name, "name", "", "name of the Function, if FILE contains several")
	cmd.Flags().StringVar(&r.config.Host, "host", "localhost", "`name` or address to listen on; 0.0.0.0 for all interfaces")
	cmd.Flags().IntVar(&r.config.Port, "port", defaultPort, "`port` of the function; 0 for any")
	cmd.Flags().Lookup("port").DefValue = "spec.serverPort, or 8080"
	cmd.Flags().IntVar(&r.config.AdminPort, "admin-port", defaultAdminPort, "`port` of metrics and probes; 0 for any")
	return cmd
}

// runner serves the Function in a file, and reloads it on save.
type runner struct {
	diagnostics
	environ    []string
	path, name string // of the Function
	dir        string // initial working directory, which path is relative to
	config     devserver.Config
	maker      *builder.Builder
	server     *devserver.Server
	scratch    string // directory of the binaries
	count      int    // number of versions that were built

	portSet bool               // whether the flag --port is set
	current *manifest.Function // last version that was started, or nil
	binary  string             // path of the binary of current
	down    error              // why current does not run, or nil
	retry   backoff
	again   <-chan time.Time // when to restart current; nil while it runs
	faulty  bool             // whether reportErrors has reported errors of the input
	address string           // last address that was announced
}

func (r *runner) run(cmd *cobra.Command, path string) (err error) {
	if path == source.Stdin {
		return errors.New("standard input cannot be watched; use a file or a directory")
	}
	ctx := cmd.Context()
	tools, err := toolchain.Find(ctx, r.environ)
	if err != nil {
		return err
	}
	if note := tools.Unconfined(); note != "" {
		r.notef("%s", note)
	}
	r.path, r.maker = path, &builder.Builder{Toolchain: tools, Progress: r.err}
	if r.dir, err = os.Getwd(); err != nil {
		return err
	}
	function := r.readOne(path, r.name)
	if r.code == exitUsage {
		return r.end()
	}
	r.forget() // follow reports errors of the source
	if r.portSet = cmd.Flags().Changed("port"); !r.portSet {
		r.config.Port = portOf(function)
	}
	if r.scratch, err = os.MkdirTemp("", "goless-run-"); err != nil {
		return fmt.Errorf("creating a directory for the binaries: %w", err)
	}
	defer os.RemoveAll(r.scratch) //nolint:errcheck // it is below the temporary directory
	r.config.Dir, r.config.Env = r.scratch, r.environ
	if r.server, err = devserver.Listen(r.config); err != nil {
		return err
	}
	r.follow(ctx)
	return r.server.Close()
}

// portOf returns the port of a Function, which is nil if its source is invalid. It returns the
// default for invalid fields, which follow reports.
func portOf(function *manifest.Function) int {
	if function == nil || function.CheckFields() != nil {
		return defaultPort
	}
	return cmp.Or(function.Serving.Port, defaultPort)
}

// announce prints the address of the function, or that it was reloaded at the same address.
func (r *runner) announce(took time.Duration) {
	r.faulty = false
	took = took.Round(time.Millisecond)
	address := r.reachable(r.server.Addr())
	if address == r.address {
		r.notef("%s: reloaded in %s", r.current.Name, took)
		return
	}
	r.address = address
	r.notef("%s: serving at http://%s after %s, metrics at http://%s/metrics",
		r.current.Name, address, took, r.reachable(r.server.AdminAddr()))
}

// reachable returns the address for clients.
func (r *runner) reachable(of *net.TCPAddr) string {
	return net.JoinHostPort(r.config.Host, strconv.Itoa(of.Port))
}

// reportErrors prints the errors of the input and the consequences. If no version runs, responses to
// requests contain the errors.
func (r *runner) reportErrors() {
	r.faulty = true
	found := r.found()
	if err := r.print(); err != nil {
		r.problemf("%v", err)
	}
	switch {
	case r.current == nil:
		r.refuse(found)
		r.problemf("waiting for the next save")
	case r.down != nil:
		r.refuse(found)
		r.notef("%s: restarting the previous version", r.current.Name)
	default:
		r.notef("%s: the previous version continues to serve", r.current.Name)
	}
}

// found returns the errors as text.
func (r *runner) found() string {
	var text strings.Builder
	for _, message := range r.messages {
		_, _ = fmt.Fprintln(&text, message)
	}
	_ = format.Write(&text, "text", r.all) // writing to text does not fail
	return text.String()
}

// refuse makes the server respond to requests and probes with 503 and the text until a version
// starts.
func (r *runner) refuse(text string) {
	if err := r.server.Refuse(strings.TrimSpace(text)); err != nil {
		r.problemf("%v", err)
	}
}
