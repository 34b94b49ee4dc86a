package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"goless.io/builder"
	"goless.io/builder/internal/format"
	"goless.io/builder/internal/input"
	"goless.io/builder/internal/serve"
)

// atOnce is how soon a process has to end so that starting it again would only
// end it again.
const atOnce = time.Second

// unsettled is for how long after a change nothing is said of what is wrong:
// whoever saves may have emptied the file, and still be writing.
const unsettled = 250 * time.Millisecond

// A runner serves what a file holds, and what it holds after every save.
type runner struct {
	diagnostics
	environ   []string
	name      string
	config    serve.Config
	fixed     bool // the port, by a flag
	unsettled time.Duration

	path    string
	maker   *builder.Builder
	server  *serve.Server
	scratch string // holds the binaries
	count   int    // of the binaries

	serving *input.Function // the last that was ready, nil before
	binary  string          // of serving
	since   time.Time       // it serves
}

// follow serves version after version until ctx ends. A change that comes while
// a version is on its way makes that one obsolete.
func (r *runner) follow(ctx context.Context, changes <-chan struct{}) {
	for next := r.reload; next != nil; {
		attempt, obsolete := context.WithCancel(ctx)
		done := make(chan struct{})
		go func(step func(context.Context)) { step(attempt); close(done) }(next)
		select {
		case <-done:
			next = r.await(ctx, changes)
		case <-changes:
			next = r.reload
		case <-ctx.Done():
			next = nil
		}
		obsolete()
		<-done
	}
}

// await returns what to do next, or nil when ctx has ended.
func (r *runner) await(ctx context.Context, changes <-chan struct{}) func(context.Context) {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changes:
			return r.reload
		case err := <-r.server.Ended():
			if r.server.Serving() {
				continue // it was about a process that has a successor
			}
			if time.Since(r.since) < atOnce {
				r.notef("%s: ended at once: %v; waiting for the next save", r.serving.Name, err)
				r.server.Refuse(fmt.Sprintf("%s ended at once: %v, see what builder run says", r.serving.Name, err))
				continue
			}
			r.notef("%s: ended: %v; starting it again", r.serving.Name, err)
			return r.restart
		}
	}
}

// reload makes a version of what the file holds now and has it serve, or says
// what is wrong with it.
func (r *runner) reload(ctx context.Context) {
	began := time.Now()
	r.forget() // an attempt that became obsolete
	r.server.Refuse("")
	function := r.readOne(r.path, r.name)
	if function != nil && r.server.Serving() && same(function, r.serving) {
		return // somebody has saved without a change
	}
	first := r.serving == nil
	if function != nil && r.build(ctx, function) {
		r.announce(first, time.Since(began))
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(time.Until(began.Add(r.unsettled))):
	}
	if ctx.Err() == nil {
		r.complain()
	}
}

func (r *runner) build(ctx context.Context, function *input.Function) bool {
	r.count++
	binary := filepath.Join(r.scratch, strconv.Itoa(r.count))
	result, err := r.maker.Build(ctx, function.Source, binary)
	if ctx.Err() != nil {
		return false
	}
	if err != nil {
		r.fail(function, err)
		return false
	}
	r.add(function, format.Warning, result.Warnings)
	r.fail(nil, r.print())
	return r.start(ctx, function, binary)
}

// start has a binary serve, in place of the one that did.
func (r *runner) start(ctx context.Context, function *input.Function, binary string) bool {
	err := r.server.Replace(ctx, serve.Version{
		Program: binary,
		Env:     r.variables(function),
		Out:     &located{to: r.out, function: function},
		Err:     &located{to: r.err, function: function},
	})
	if err != nil {
		if ctx.Err() == nil {
			r.notef("%s: %v", function.Name, err)
		}
		return false
	}
	if r.binary != binary && r.binary != "" {
		_ = os.Remove(r.binary) // the directory goes in the end, too
	}
	r.serving, r.binary, r.since = function, binary, time.Now()
	return true
}

func (r *runner) restart(ctx context.Context) {
	if !r.start(ctx, r.serving, r.binary) && ctx.Err() == nil {
		r.complain()
	}
}

// announce says where the function is, or that it is another one now.
func (r *runner) announce(first bool, took time.Duration) {
	took = took.Round(time.Millisecond)
	if port := r.serving.Serving.Port; port != 0 && port != r.config.Port && !r.fixed {
		r.noteOnce("%s: spec.serverPort is %d now, end this and run it again to have that", r.serving.Name, port)
	}
	if !first {
		r.notef("%s: reloaded in %s", r.serving.Name, took)
		return
	}
	r.notef("%s: serving at http://%s after %s, metrics at http://%s/metrics",
		r.serving.Name, r.address(r.server.Addr()), took, r.address(r.server.AdminAddr()))
}

func (r *runner) address(of *net.TCPAddr) string {
	return net.JoinHostPort(r.config.Host, strconv.Itoa(of.Port))
}

// complain prints what is wrong and what happens now.
func (r *runner) complain() {
	if err := r.print(); err != nil {
		r.notef("builder: %v", err)
	}
	if r.server.Serving() {
		r.notef("%s: the version before goes on serving", r.serving.Name)
	} else {
		r.notef("builder: waiting for the next save")
		r.server.Refuse("the function cannot be served, see what builder run says")
	}
}

// variables are what the operator would set for a Function, but for what this
// environment has another value for.
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
