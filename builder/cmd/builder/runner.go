package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
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

	"goless.io/builder"
	"goless.io/builder/internal/devserver"
	"goless.io/builder/internal/format"
	"goless.io/builder/internal/input"
	"goless.io/builder/internal/linewriter"
	"goless.io/builder/internal/readable"
	"goless.io/builder/internal/toolchain"
)

// A runner serves the Function that a file holds, and what it becomes with every save.
type runner struct {
	diagnostics
	environ    []string
	path, name string // of the Function
	dir        string // the working directory at the start, which path is relative to
	config     devserver.Config
	ownPort    bool // the port is spec.serverPort, and not that of a flag
	maker      *builder.Builder
	server     *devserver.Server
	scratch    string // the directory of the binaries
	count      int    // of the versions that were built

	current *input.Function // what serves, or nil
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

// announce says where the function is, or that it is another one now.
func (r *runner) announce(took time.Duration) {
	took = took.Round(time.Millisecond)
	if port := cmp.Or(r.current.Serving.Port, defaultPort); r.ownPort && port != r.config.Port {
		r.noteOnce("%s: spec.serverPort is %d now, end this and run it again to have that", r.current.Name, port)
	}
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
