package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"goless.io/builder"
	"goless.io/builder/internal/devserver"
	"goless.io/builder/internal/format"
	"goless.io/builder/internal/input"
	"goless.io/builder/internal/linewriter"
	"goless.io/builder/internal/readable"
	"goless.io/builder/internal/toolchain"
)

// The ports that the runtime of functions has without being told others.
const (
	defaultPort      = 8080
	defaultAdminPort = 9090
)

const runExample = `  # serve a Function at its serverPort, and again with every save
  builder run hello.yaml

  # a Go module, elsewhere
  builder run --port 3000 --admin-port 3001 .

  # with what a Secret holds in the cluster
  TOKEN=secret builder run hello.yaml`

func newRun(s streams, environ []string) *cobra.Command {
	r := &runner{diagnostics: diagnostics{streams: s}, environ: environ}
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Serve a Function on this machine, and reload it on save",
		Long: `Serve a Function on this machine, with the pipeline and the runtime of the
cluster. When the FILE or one of the directory is saved, the new version takes
over as soon as it compiles; until then the old one goes on serving. Requests wait
while there is none.

The function has the variables of spec.env, unless they are set in this
environment, and those of this environment. Ctrl-C ends it.`,
		Example:           runExample,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeFiles,
		RunE:              func(cmd *cobra.Command, args []string) error { return r.run(cmd, args[0]) },
	}
	r.addFlag(cmd)
	cmd.Flags().StringVar(&r.name, "name", "", "the Function to serve where there are several")
	cmd.Flags().StringVar(&r.config.Host, "host", "localhost", "`name` or address to listen on; 0.0.0.0 for everybody")
	cmd.Flags().IntVar(&r.config.Port, "port", defaultPort, "`port` of the function, 0 for any")
	cmd.Flags().Lookup("port").DefValue = "spec.serverPort, or 8080"
	cmd.Flags().IntVar(&r.config.AdminPort, "admin-port", defaultAdminPort, "`port` of metrics and probes, 0 for any")
	return cmd
}

// A runner serves the Function that a file holds, and what it becomes with every save.
type runner struct {
	diagnostics
	environ    []string
	path, name string // of the Function
	dir        string // the working directory at the start, which path is relative to
	config     devserver.Config
	maker      *builder.Builder
	server     *devserver.Server
	scratch    string // the directory of the binaries
	count      int    // of the versions that were built

	current *input.Function // what serves, or nil
}

func (r *runner) run(cmd *cobra.Command, path string) (err error) {
	if path == input.Stdin {
		return errors.New("standard input cannot be watched, name a file or a directory")
	}
	ctx := cmd.Context()
	tools, err := toolchain.Find(ctx, r.environ)
	if err != nil {
		return err
	}
	if note := tools.Unconfined(); note != "" {
		r.notef("%s", note)
	}
	r.path, r.maker = path, &builder.Builder{Toolchain: tools}
	if r.dir, err = os.Getwd(); err != nil {
		return err
	}
	function := r.readOne(path, r.name)
	if r.code == exitUsage {
		return r.end()
	}
	r.forget() // follow says what is wrong with the source
	if !cmd.Flags().Changed("port") {
		r.config.Port = portOf(function)
	}
	if r.scratch, err = os.MkdirTemp("", "goless-run-"); err != nil {
		return fmt.Errorf("making a directory for the binaries: %w", err)
	}
	defer os.RemoveAll(r.scratch) //nolint:errcheck // it is below the temporary directory
	r.config.Dir, r.config.Env = r.scratch, r.environ
	if r.server, err = devserver.Listen(r.config); err != nil {
		return err
	}
	r.follow(ctx)
	return r.server.Close()
}

// portOf returns the port of a Function, which is nil if its source is at fault. If the
// cluster would refuse its fields that is the default: follow says what is wrong with them.
func portOf(function *input.Function) int {
	if function == nil || function.CheckFields() != nil {
		return defaultPort
	}
	return cmp.Or(function.Serving.Port, defaultPort)
}

// pause is the least time between two looks at the input. Ten times as long as a look takes is
// better, where there are many files.
const pause = 100 * time.Millisecond

// follow serves version after version until ctx ends. It reads the input again and again, which
// is the same on every system, in network file systems, and for directories that are replaced
// by others of their name.
func (r *runner) follow(ctx context.Context) {
	served := r.look()
	r.reload(ctx)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for before := served; ; {
		program := r.server.Lifetime()
		select {
		case <-ctx.Done():
			return
		case <-program.Done():
			r.notef("%s: ended: %v; waiting for the next save", r.current.Name, context.Cause(program))
			r.stop()
			continue
		case <-timer.C:
		}
		began := time.Now()
		now := r.look()
		took := time.Since(began)
		// To save one file, some editors empty it first, or write, rename and remove several.
		if now == before && now != served {
			served = now
			r.reload(ctx)
		}
		before = now
		timer.Reset(max(pause, 10*took))
	}
}

// look returns a hash of what the input holds, which changes with every save.
func (r *runner) look() [sha256.Size]byte {
	defer r.forget()
	state := r.path
	if f := r.readAgain(); f != nil {
		state = fmt.Sprint(f.Modified, f.Serving, string(f.Source))
	}
	return sha256.Sum256(fmt.Append(nil, state, r.messages, r.all))
}

// reload serves what the file holds now, or says what is wrong with it.
func (r *runner) reload(ctx context.Context) {
	began := time.Now()
	function := r.readAgain()
	if function != nil && r.current != nil && same(function, r.current) {
		return // the file was saved without a change
	}
	if function != nil && r.build(ctx, function) {
		r.announce(time.Since(began))
	} else if ctx.Err() == nil {
		r.complain()
	}
}

// readAgain reads the Function. If the working directory was replaced by another, this
// process is still in the old one, wherever that is now.
func (r *runner) readAgain() *input.Function {
	if err := os.Chdir(r.dir); err != nil {
		r.fail(nil, err)
		return nil
	}
	return r.readOne(r.path, r.name)
}

// build builds a Function and has it serve.
func (r *runner) build(ctx context.Context, function *input.Function) bool {
	if err := function.CheckFields(); err != nil {
		r.fail(nil, err)
		return false
	}
	path := filepath.Join(r.scratch, toolchain.Executable(strconv.Itoa(r.count%2))) // the other one may run
	result, err := r.maker.Build(ctx, function.Source, path)
	if err != nil {
		r.fail(function, err)
		return false
	}
	r.count++
	r.add(function, format.Warning, result.Warnings)
	r.omitted += result.Omitted
	r.fail(nil, r.print())
	err = r.server.Start(devserver.Program{
		Path: path,
		Env:  r.variables(function),
		Out:  &linewriter.Writer{To: r.out, Edit: edit(r.out, function)},
		Err:  &linewriter.Writer{To: r.err, Edit: edit(r.err, function)},
	})
	if err != nil {
		r.fail(function, err)
		r.stop()
		return false
	}
	r.current = function
	return true
}

// edit returns what changes the output of a function: places are those of the input, and
// where people read it the log has the form for them.
func edit(to io.Writer, function *input.Function) func(string) string {
	show := forPeople(to)
	return func(lines string) string { return show(function.Mentions(lines)) }
}

// forPeople returns what gives logs the form for people if they read them, at a terminal.
func forPeople(to io.Writer) func(string) string {
	if file, ok := to.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 { // a terminal
			return readable.Lines
		}
	}
	return func(lines string) string { return lines }
}

// stop ends what serves. Requests wait for the next version.
func (r *runner) stop() {
	r.server.Stop()
	r.current = nil
}

// announce says where the function is, or that it was reloaded.
func (r *runner) announce(took time.Duration) {
	took = took.Round(time.Millisecond)
	if r.count > 1 {
		r.notef("%s: reloaded in %s", r.current.Name, took)
		return
	}
	r.notef("%s: serving at http://%s after %s, metrics at http://%s/metrics",
		r.current.Name, r.address(r.server.Addr()), took, r.address(r.server.AdminAddr()))
}

func (r *runner) address(of *net.TCPAddr) string {
	return net.JoinHostPort(r.config.Host, strconv.Itoa(of.Port))
}

// complain prints what is wrong, and what happens now.
func (r *runner) complain() {
	if err := r.print(); err != nil {
		r.problemf("%v", err)
	}
	if r.current != nil {
		r.notef("%s: the version before goes on serving", r.current.Name)
		return
	}
	r.problemf("waiting for the next save")
}

// variables are the variables that the operator sets for a Function, without those that
// have a value in this environment.
func (r *runner) variables(function *input.Function) []string {
	wanted := function.Serving
	env := []string{
		"FUNCTION_NAME=" + function.Name,
		fmt.Sprintf("SERVER_PORT=%d", r.server.Addr().Port),
		fmt.Sprintf("ADMIN_PORT=%d", r.server.AdminAddr().Port),
	}
	own := append([]string{"REQUEST_TIMEOUT=" + wanted.Timeout, "REQUEST_CONCURRENCY=" + wanted.Concurrency}, wanted.Env...)
	for _, variable := range own {
		if name, value, _ := strings.Cut(variable, "="); value != "" && !r.isSet(name) {
			env = append(env, variable)
		}
	}
	for _, name := range wanted.Elsewhere {
		if !r.isSet(name) {
			r.noteOnce("%s: the cluster knows %s, set it in this environment if the function needs it", function.Name, name)
		}
	}
	return env
}

func (r *runner) isSet(name string) bool {
	return slices.ContainsFunc(r.environ, func(variable string) bool { return strings.HasPrefix(variable, name+"=") })
}

// same reports whether one Function would be served as the other is.
func same(a, b *input.Function) bool {
	return bytes.Equal(a.Source, b.Source) && reflect.DeepEqual(a.Serving, b.Serving)
}
