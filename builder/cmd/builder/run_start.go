package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"goless.io/builder/internal/devserver"
	"goless.io/builder/internal/format"
	"goless.io/builder/internal/linewriter"
	"goless.io/builder/internal/manifest"
	"goless.io/builder/internal/readable"
	"goless.io/builder/internal/toolchain"
)

// build builds and starts a Function. It reports whether it succeeded.
func (r *runner) build(ctx context.Context, function *manifest.Function) bool {
	if err := function.CheckFields(); err != nil {
		r.fail(nil, err)
		return false
	}
	path := filepath.Join(r.scratch, toolchain.Executable(strconv.Itoa(r.count%2))) // the other may be running
	result, err := r.maker.Build(ctx, function.Source, path)
	if err != nil {
		r.fail(function, err)
		return false
	}
	r.add(function, format.Warning, result.Warnings)
	r.omitted += result.Omitted
	r.fail(nil, r.print())
	if !r.portSet {
		if err := r.server.SetPort(portOf(function)); err != nil {
			r.fail(nil, fmt.Errorf("spec.serverPort changed: %w", err))
			return false
		}
	}
	r.count++
	r.current, r.binary, r.retry = function, path, backoff{}
	if err := r.start(); err != nil {
		r.fail(function, err)
		r.current, r.down, r.again = nil, nil, nil
		return false
	}
	return true
}

// start starts the current version.
func (r *runner) start() error {
	function := r.current
	r.down = r.server.Start(devserver.Program{
		Path: r.binary,
		Env:  r.variables(function),
		Out:  &linewriter.Writer{To: r.out, Edit: edit(r.out, function)},
		Err:  &linewriter.Writer{To: r.err, Edit: edit(r.err, function)},
	})
	r.again, r.retry.began = nil, time.Now()
	return r.down
}

// startAgain restarts the current version after it has ended.
func (r *runner) startAgain() {
	if err := r.start(); err != nil {
		r.ended(err)
		return
	}
	r.notef("%s: restarted", r.current.Name)
}

// ended reports why the current version does not run, also in responses to requests, and schedules
// a restart after a delay.
func (r *runner) ended(err error) {
	r.down = err
	delay := r.retry.next(time.Now())
	r.again = time.After(delay)
	r.notef("%s: %v; restarting in %s", r.current.Name, err, delay)
	r.refuse(fmt.Sprintf("%s: %v", r.current.Name, err))
}

// edit returns a function that edits the output of a Function: it replaces positions with those of
// the input, and formats logs if to is a terminal.
func edit(to io.Writer, function *manifest.Function) func(string) string {
	show := forPeople(to)
	return func(lines string) string { return show(function.Mentions(lines)) }
}

// forPeople returns a function that formats logs if to is a terminal, or else returns them
// unchanged.
func forPeople(to io.Writer) func(string) string {
	if file, ok := to.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 { // a terminal
			return readable.Lines
		}
	}
	return func(lines string) string { return lines }
}

// variables returns the environment variables that the operator sets for a Function, except those
// that are set in this environment.
func (r *runner) variables(function *manifest.Function) []string {
	wanted := function.Serving
	env := []string{
		"FUNCTION_NAME=" + function.Name,
		fmt.Sprintf("SERVER_PORT=%d", r.server.Addr().Port),
		fmt.Sprintf("ADMIN_PORT=%d", r.server.AdminAddr().Port),
	}
	for name, value := range map[string]string{"REQUEST_TIMEOUT": wanted.Timeout, "REQUEST_CONCURRENCY": wanted.Concurrency} {
		if value != "" && !r.isSet(name) {
			env = append(env, name+"="+value)
		}
	}
	known := map[string]string{}
	for _, variable := range env {
		name, value, _ := strings.Cut(variable, "=")
		known[name] = value
	}
	for _, name := range wanted.Elsewhere {
		if r.isSet(name) {
			known[name] = toolchain.Lookup(r.environ, name)
		}
	}
	for _, variable := range wanted.Env {
		name, value, _ := strings.Cut(variable, "=")
		known[name] = expand(value, known)
		if r.isSet(name) {
			known[name] = toolchain.Lookup(r.environ, name)
			continue
		}
		env = append(env, name+"="+known[name])
	}
	for _, name := range wanted.Elsewhere {
		if !r.isSet(name) {
			r.noteOnce("%s: only the cluster has the value of %s; set it in this environment if the function needs it", function.Name, name)
		}
	}
	return env
}

func (r *runner) isSet(name string) bool {
	return slices.ContainsFunc(r.environ, func(variable string) bool { return strings.HasPrefix(variable, name+"=") })
}

var reference = regexp.MustCompile(`\$\$|\$\([^)]*\)`)

// expand replaces references to variables in the value of another one, as the kubelet does: $(NAME)
// with the value if the variable is known, and $$ with $.
func expand(value string, known map[string]string) string {
	return reference.ReplaceAllStringFunc(value, func(match string) string {
		if match == "$$" {
			return "$"
		}
		if value, ok := known[strings.TrimSuffix(strings.TrimPrefix(match, "$("), ")")]; ok {
			return value
		}
		return match
	})
}
