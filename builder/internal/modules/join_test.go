package modules

import (
	"crypto/rand"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/goproxytest"
	"golang.org/x/mod/sumdb"
	"golang.org/x/mod/sumdb/note"

	"goless.io/builder/handler"
	"goless.io/builder/internal/buildtest"
)

// metrics uses a library that the runtime also uses.
const metrics = `package handlers

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/sys/unix"
)

var calls = promauto.NewCounter(prometheus.CounterOpts{Name: "calls_total", Help: "Calls."})

func Handler(w http.ResponseWriter, r *http.Request) {
	calls.Inc()
	if unix.Getpid() > 0 {
		w.Write([]byte("counted"))
	}
}
`

// TestFetchJoinsOlder requires older versions than the runtime.
func TestFetchJoinsOlder(t *testing.T) {
	proxy := serveModules(t)
	binary, err := fetchAndBuild(t, machine(t, proxy.URL), buildtest.Write(t, pinned(t, "older", metrics)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := call(t, binary, "/"); got != "counted" {
		t.Errorf("the function answers %q", got)
	}
	if archives := proxy.archives(); len(archives) > 0 {
		t.Errorf("%q were fetched, the image has newer ones of all", archives)
	}
}

// newerSource requires a client_golang newer than the runtime's, which needs a module that neither
// go.mod contains. It returns the GOPROXY with both.
func newerSource(t *testing.T) (source, proxies string) {
	t.Helper()
	const path, newer = "github.com/prometheus/client_golang", "v1.999.0"
	modules, err := runtimeModules()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	changed := filepath.Join(dir, strings.ReplaceAll(path, "/", "_")+"_"+newer)
	if err := os.CopyFS(changed, os.DirFS(filepath.Join(modules, path+"@v1.25.0"))); err != nil {
		t.Fatal(err)
	}
	require := func(data []byte) ([]byte, error) {
		return append(data, "\nrequire example.com/greeter v1.0.0\n"...), nil
	}
	use := []byte("package promhttp\n\nimport _ \"example.com/greeter\"\n")
	if err := errors.Join(change(filepath.Join(changed, goMod), require), os.WriteFile(filepath.Join(changed, "prometheus", "promhttp", "new.go"), use, 0o600)); err != nil {
		t.Fatal(err)
	}
	proxies = strings.Join([]string{goproxytest.NewTestServer(t, dir, "").URL, greeterProxy(t), serveModules(t).URL}, ",")
	lines, err := sums(t.Context(), proxies, path, newer)
	if err != nil {
		t.Fatal(err)
	}
	source = strings.Replace(pinned(t, "current", metrics), path+" v1.25.0", path+" "+newer, 1)
	return strings.Replace(source, "-- go.sum --\n", "-- go.sum --\n"+lines, 1), proxies
}

// TestFetchJoinsNewer requires a version of a module that makes the runtime need modules that are
// missing in the author's go.sum.
func TestFetchJoinsNewer(t *testing.T) {
	source, proxies := newerSource(t)
	tools := machine(t, proxies)
	err := Fetch(t.Context(), tools, FetchOptions{Program: buildtest.Write(t, source), Timeout: buildtest.Timeout})
	if _, ok := errors.AsType[*handler.Error](err); !ok || !strings.Contains(err.Error(), "go.sum has no checksums of indirect modules (1, the first is example.com/greeter@v1.0.0); add them with: builder tidy FILE") {
		t.Errorf("Fetch without a checksum database: %v", err)
	}

	tools.Network = []string{"GOPROXY=" + proxies, "GOSUMDB=" + serveSums(t, proxies)}
	binary, err := fetchAndBuild(t, tools, buildtest.Write(t, source), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := call(t, binary, "/"); got != "counted" {
		t.Errorf("the function answers %q", got)
	}
}

// serveSums starts a checksum database for the modules of proxies and returns its GOSUMDB.
func serveSums(t *testing.T, proxies string) string {
	t.Helper()
	private, public, err := note.GenerateKey(rand.Reader, "sums.example.com")
	if err != nil {
		t.Fatal(err)
	}
	database := sumdb.NewServer(sumdb.NewTestServer(private, func(path, version string) ([]byte, error) {
		lines, err := sums(t.Context(), proxies, path, version)
		return []byte(lines), err
	}))
	server := httptest.NewServer(database)
	t.Cleanup(server.Close)
	return public + " " + server.URL
}
