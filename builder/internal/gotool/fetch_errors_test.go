package gotool

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"goless.io/builder/internal/modproxy"
)

// greeter is a module that a test makes up.
const greeter = `
-- go.mod --
module example.com/greeter

go 1.21
-- greeter.go --
package greeter

func Greet() string { return "hello from a module" }
-- sub/sub.go --
package sub
`

// greeting uses it. Its checksums are right.
const greeting = `
-- handler.go --
package handlers

import (
	"io"
	"net/http"

	"example.com/greeter"
)

func Handler(w http.ResponseWriter, r *http.Request) { io.WriteString(w, greeter.Greet()) }
-- go.mod --
module example.com/greeting

go 1.26

require example.com/greeter v1.0.0
-- go.sum --
SUMS
`

func greeterProxy(t *testing.T) *modproxy.Proxy {
	t.Helper()
	p := new(modproxy.Proxy)
	if err := p.Add("example.com/greeter", "v1.0.0", []byte(greeter)); err != nil {
		t.Fatal(err)
	}
	return p
}

// greetingSource returns greeting with the checksums that p's module has.
func greetingSource(t *testing.T, p *modproxy.Proxy) string {
	t.Helper()
	sums, err := p.Sums("example.com/greeter", "v1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Replace(greeting, "SUMS\n", sums, 1)
}

func TestFetchReports(t *testing.T) {
	proxy := greeterProxy(t)
	server := httptest.NewServer(proxy)
	defer server.Close()
	source := greetingSource(t, proxy)
	base := machine(t, server.URL)
	change := func(old, new string) string {
		if !strings.Contains(source, old) {
			t.Fatalf("the source has no %q", old)
		}
		return strings.Replace(source, old, new, 1)
	}
	mod, sums, _ := strings.Cut(source, "-- go.sum --\n")
	replaced := mod + "\nreplace example.com/greeter => example.com/fork v1.0.0\n-- go.sum --\n" + strings.ReplaceAll(sums, "greeter", "fork")
	cases := map[string]struct {
		source string
		proxy  string
		want   string // PROXY stands for the address
	}{
		"WrongChecksum":  {change("v1.0.0 h1:", "v1.0.0 h1:x"), server.URL, "go.mod:5:1: SECURITY: the checksum of example.com/greeter@v1.0.0 is not the one that it had when go.sum was written; find out which of them is wrong, then write go.sum anew with: builder tidy FILE"},
		"MissingSum":     {change("example.com/greeter v1.0.0 h1:", "example.com/other v1.0.0 h1:"), server.URL, "go.mod:5:1: go.sum has no checksum of example.com/greeter@v1.0.0, write it with: builder tidy FILE"},
		"NoSums":         {source[:strings.Index(source, "-- go.sum")], server.URL, "go.mod:5:1: go.sum has no checksum of example.com/greeter@v1.0.0, write it with: builder tidy FILE"},
		"MissingVersion": {strings.ReplaceAll(source, "v1.0.0", "v1.9.9"), server.URL, "go.mod:5:1: there is no example.com/greeter@v1.9.9 at the module proxy (404 Not Found), check its path and version"},
		"Replaced":       {replaced, server.URL, "go.mod:7:1: there is no example.com/fork@v1.0.0 at the module proxy (404 Not Found), check its path and version"},
		"MissingPackage": {change("example.com/greeter\"", "example.com/greeter\"\n\t_ \"example.com/greeter/none\""), server.URL, "handler.go:8:2: no module of go.mod has the package example.com/greeter/none, add it with: builder tidy FILE"},
		"Down":           {source, "http://127.0.0.1:1", "fetching modules failed: example.com/greeter@v1.0.0 cannot be fetched: the module proxy does not answer as it should (Get \"http://127.0.0.1:1/example.com/greeter/@v/v1.0.0.zip\": dial tcp 127.0.0.1:1: connect: connection refused)"},
		"Off":            {source, "off", "go.mod:5:1: example.com/greeter@v1.0.0 cannot be fetched: the administrator of the cluster has turned it off (GOPROXY=off); ask for it, or put the modules into the source with: go mod vendor, builder pack"},
		"Fine":           {source, server.URL, "<nil>"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			toolchain := *base
			toolchain.Network = []string{"GOPROXY=" + c.proxy, "GOSUMDB=off"}
			err := toolchain.Fetch(t.Context(), Fetch{Program: write(t, c.source), Timeout: fetchTimeout})
			if _, ok := errors.AsType[*CompileError](err); !ok && err != nil && !errors.Is(err, ErrFetch) {
				t.Errorf("Fetch: %v, want a *CompileError or ErrFetch", err)
			}
			if diff := cmp.Diff(c.want, fmt.Sprint(err)); diff != "" {
				t.Errorf("Fetch: -want +got\n%s", diff)
			}
		})
	}
}

// TestFetchFromPrivateProxy has what an administrator gives to builds: a
// certificate authority, and credentials in a file.
func TestFetchFromPrivateProxy(t *testing.T) {
	proxy := greeterProxy(t)
	proxy.User, proxy.Password = "builder", "s3cret"
	server := httptest.NewUnstartedServer(proxy)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of clients that do not trust it
	server.StartTLS()
	defer server.Close()
	toolchain := machine(t, server.URL)
	source := greetingSource(t, proxy)

	err := toolchain.Fetch(t.Context(), Fetch{Program: write(t, source), Timeout: fetchTimeout})
	if !errors.Is(err, ErrFetch) || !strings.Contains(err.Error(), "the certificate of the module proxy is not trusted (") {
		t.Errorf("Fetch from an unknown authority: %v", err)
	}

	authority, netrc := filepath.Join(t.TempDir(), "ca.crt"), filepath.Join(t.TempDir(), "netrc")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	credentials := "machine " + server.Listener.Addr().String() + " login builder password s3cret\n"
	if err := errors.Join(os.WriteFile(authority, certificate, 0o600), os.WriteFile(netrc, []byte(credentials), 0o600)); err != nil {
		t.Fatal(err)
	}
	toolchain.Network = append(toolchain.Network, "SSL_CERT_FILE="+authority)
	err = toolchain.Fetch(t.Context(), Fetch{Program: write(t, source), Timeout: fetchTimeout})
	if !errors.Is(err, ErrFetch) || !strings.Contains(err.Error(), "example.com/greeter@v1.0.0 is refused by the module proxy (401 Unauthorized") {
		t.Errorf("Fetch without credentials: %v", err)
	}

	toolchain.Network = append(toolchain.Network, "NETRC="+netrc)
	binary, err := fetchAndBuild(t, toolchain, write(t, source), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := call(t, binary, "/"), "hello from a module"; got != want {
		t.Errorf("the function answers %q, want %q", got, want)
	}
}

// TestFetchEnds has a proxy that never answers.
func TestFetchEnds(t *testing.T) {
	source := greetingSource(t, greeterProxy(t))
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer server.Close()
	toolchain := machine(t, server.URL)
	err := toolchain.Fetch(t.Context(), Fetch{Program: write(t, source), Timeout: time.Second})
	if !errors.Is(err, ErrFetch) || !strings.Contains(err.Error(), "stopped after 1s") {
		t.Errorf("Fetch: %v, want ErrFetch because of the time", err)
	}
}

func TestFetchOfTooMuch(t *testing.T) {
	_, url := serveModules(t)
	p := write(t, pinned(t, "current", libraries))
	err := machine(t, url).Fetch(t.Context(), Fetch{Program: p, Timeout: fetchTimeout, space: 1 << 20})
	failure, ok := errors.AsType[*CompileError](err)
	if want := "go.mod:1:1: the modules that it requires take more than 1 MiB, require fewer of them"; !ok || failure.Error() != want {
		t.Errorf("Fetch: %v, want %s", err, want)
	}
}
