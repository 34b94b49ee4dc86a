package gotool

import (
	"crypto/rand"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/tools/txtar"

	"goless.io/builder/internal/modproxy"
)

// metrics uses the library that the runtime uses as well.
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

// TestFetchJoinsOlder has an author who requires older versions than the runtime.
func TestFetchJoinsOlder(t *testing.T) {
	proxy, url := serveModules(t)
	binary, err := fetchAndBuild(t, machine(t, url), write(t, pinned(t, "older", metrics)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := call(t, binary, "/"); got != "counted" {
		t.Errorf("the function answers %q", got)
	}
	for _, path := range proxy.Requests() {
		if strings.HasSuffix(path, ".zip") {
			t.Errorf("%s was fetched, the image has newer ones of all", path)
		}
	}
}

// newerSource requires a client_golang that is newer than the runtime's, and that
// needs a module which neither go.mod knows of.
func newerSource(t *testing.T) (source, proxyURL, sumsURL string) {
	t.Helper()
	const path, newer = "github.com/prometheus/client_golang", "v1.999.0"
	proxy, url := serveModules(t)
	if err := proxy.Add("example.com/greeter", "v1.0.0", []byte(greeter)); err != nil {
		t.Fatal(err)
	}
	err := proxy.Copy(path, "v1.25.0", newer, func(files []txtar.File) []txtar.File {
		for i := range files {
			if files[i].Name == "go.mod" {
				files[i].Data = append(files[i].Data, "\nrequire example.com/greeter v1.0.0\n"...)
			}
		}
		return append(files, txtar.File{Name: "prometheus/promhttp/new.go", Data: []byte("package promhttp\n\nimport _ \"example.com/greeter\"\n")})
	})
	if err != nil {
		t.Fatal(err)
	}
	sums, err := proxy.Sums(path, newer)
	if err != nil {
		t.Fatal(err)
	}
	source = strings.Replace(pinned(t, "current", metrics), path+" v1.25.0", path+" "+newer, 1)
	return strings.Replace(source, "-- go.sum --\n", "-- go.sum --\n"+sums, 1), url, serveSums(t, proxy)
}

// TestFetchJoinsNewer has an author whose version of a module needs, for the
// runtime, what the author's go.sum says nothing of.
func TestFetchJoinsNewer(t *testing.T) {
	source, url, sums := newerSource(t)
	toolchain := machine(t, url)
	err := toolchain.Fetch(t.Context(), Fetch{Program: write(t, source), Timeout: fetchTimeout})
	if _, ok := errors.AsType[*CompileError](err); !ok || !strings.Contains(err.Error(), "go.sum has no checksum of example.com/greeter@v1.0.0, write it with: builder tidy FILE") {
		t.Errorf("Fetch without a checksum database: %v", err)
	}

	toolchain.Network = []string{"GOPROXY=" + url, "GOSUMDB=" + sums}
	binary, err := fetchAndBuild(t, toolchain, write(t, source), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := call(t, binary, "/"); got != "counted" {
		t.Errorf("the function answers %q", got)
	}
}

// serveSums starts a checksum database that knows the modules of a proxy, and
// returns its GOSUMDB.
func serveSums(t *testing.T, p *modproxy.Proxy) string {
	t.Helper()
	private, public, err := note.GenerateKey(rand.Reader, "sums.example.com")
	if err != nil {
		t.Fatal(err)
	}
	database := sumdb.NewServer(sumdb.NewTestServer(private, func(path, version string) ([]byte, error) {
		sums, err := p.Sums(path, version)
		return []byte(sums), err
	}))
	server := httptest.NewServer(database)
	t.Cleanup(server.Close)
	return public + " " + server.URL
}
