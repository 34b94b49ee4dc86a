package modules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/goproxytest"
	"golang.org/x/tools/txtar"

	"goless.io/builder/internal/buildtest"
)

// recorder is a module proxy that records requests.
type recorder struct {
	URL string

	mu    sync.Mutex
	paths []string
}

// serveModules starts a proxy for buildtest.Modules.
func serveModules(t *testing.T) *recorder {
	t.Helper()
	dir, err := buildtest.Modules()
	if err != nil {
		t.Fatal(err)
	}
	r, files := new(recorder), http.FileServer(http.Dir(dir))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		r.paths = append(r.paths, req.URL.Path)
		r.mu.Unlock()
		files.ServeHTTP(w, req)
	}))
	t.Cleanup(server.Close)
	r.URL = server.URL
	return r
}

// archives returns the paths of the modules whose archives were requested.
func (r *recorder) archives() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.paths), func(path string) bool { return !strings.HasSuffix(path, ".zip") })
}

// serveArchive starts a proxy for version v1.0.0 of an invented module, with the files in a txtar
// archive. It returns the address.
func serveArchive(t *testing.T, path, archive string) string {
	t.Helper()
	dir := t.TempDir()
	file := strings.ReplaceAll(path, "/", "_") + "_v1.0.0.txtar"
	if err := os.WriteFile(filepath.Join(dir, file), []byte(archive), 0o600); err != nil {
		t.Fatal(err)
	}
	return goproxytest.NewTestServer(t, dir, "").URL
}

// sums returns the lines of a go.sum for a module version at a proxy.
func sums(ctx context.Context, proxy, path, version string) (string, error) {
	cache, err := os.MkdirTemp(scratch, "sums-")
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", path+"@"+version)
	cmd.Dir = cache
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-modcacherw", "GOSUMDB=off", "GOPROXY="+proxy, "GOMODCACHE="+cache)
	out, err := cmd.Output()
	var answer struct{ Sum, GoModSum, Error string }
	if json.Unmarshal(out, &answer) == nil && answer.Error != "" {
		return "", errors.New(answer.Error)
	}
	if err != nil {
		return "", fmt.Errorf("downloading %s@%s: %w", path, version, err)
	}
	return fmt.Sprintf("%s %s %s\n%[1]s %[2]s/go.mod %[4]s\n", path, version, answer.Sum, answer.GoModSum), nil
}

// pinned returns a source with a handler that uses modules, and the go.mod and go.sum of a
// directory in testdata.
func pinned(t *testing.T, dir, source string) string {
	t.Helper()
	archive := &txtar.Archive{Files: []txtar.File{{Name: "handler.go", Data: []byte(source)}}}
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join("testdata", dir, name))
		if err != nil {
			t.Fatal(err)
		}
		archive.Files = append(archive.Files, txtar.File{Name: name, Data: data})
	}
	return string(txtar.Format(archive))
}
