// Package modproxy serves modules to the go command, for tests: real ones, which
// some go.sum pins, and ones that a test makes up. It owns the protocol of module
// proxies, and refuses to know who asks and why.
package modproxy

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// Proxy is a module proxy. Its zero value has no modules.
type Proxy struct {
	// User and Password are what a client needs, if User is not empty.
	User, Password string

	// Log receives the path of each request on a line, unless it is nil.
	Log io.Writer

	mu       sync.Mutex
	modules  map[module.Version]files
	requests []string
}

// files are what a proxy has of a version. Each is a name in the file system, or
// the content.
type files struct {
	mod, zip func() ([]byte, error)
}

func fromFile(name string) func() ([]byte, error) {
	return func() ([]byte, error) { return os.ReadFile(name) }
}

func fromData(data []byte) func() ([]byte, error) {
	return func() ([]byte, error) { return data, nil }
}

func (p *Proxy) add(m module.Version, change func(*files)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.modules == nil {
		p.modules = make(map[module.Version]files)
	}
	f := p.modules[m]
	change(&f)
	p.modules[m] = f
}

// Requests returns the paths that were asked for, in the order of the requests.
func (p *Proxy) Requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.requests)
}

// ServeHTTP answers as https://go.dev/ref/mod#goproxy-protocol says.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.requests = append(p.requests, r.URL.Path)
	if p.Log != nil {
		fmt.Fprintln(p.Log, r.URL.Path)
	}
	p.mu.Unlock()
	if user, password, _ := r.BasicAuth(); p.User != "" && (user != p.User || password != p.Password) {
		w.Header().Set("WWW-Authenticate", `Basic realm="modules"`)
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	data, err := p.find(strings.TrimPrefix(r.URL.Path, "/"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	_, _ = w.Write(data) // a client that hangs up is no fault
}

// find returns what is asked for by a path such as example.com/m/@v/v1.0.0.mod.
func (p *Proxy) find(path string) ([]byte, error) {
	escaped, what, ok := strings.Cut(path, "/@v/")
	name, err := module.UnescapePath(escaped)
	if !ok || err != nil {
		return nil, fmt.Errorf("not found: %s", path)
	}
	if what == "list" {
		return []byte(strings.Join(p.versions(name), "\n")), nil
	}
	extension := filepath.Ext(what)
	version, err := module.UnescapeVersion(strings.TrimSuffix(what, extension))
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	found := p.modules[module.Version{Path: name, Version: version}]
	p.mu.Unlock()
	switch {
	case extension == ".info" && semver.IsValid(version):
		// For whatever has a place in a graph of modules: go.sum does not list
		// all of it. Who needs more learns from the next request what there is.
		return json.Marshal(map[string]string{"Version": version, "Time": "2026-01-01T00:00:00Z"})
	case extension == ".mod" && found.mod != nil:
		return found.mod()
	case extension == ".zip" && found.zip != nil:
		return found.zip()
	}
	return nil, fmt.Errorf("not found: %s@%s: unknown revision %s", name, version, version)
}

// versions returns the versions of a module, sorted.
func (p *Proxy) versions(path string) (versions []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for m, f := range p.modules {
		if m.Path == path && f.zip != nil {
			versions = append(versions, m.Version)
		}
	}
	semver.Sort(versions)
	return versions
}
