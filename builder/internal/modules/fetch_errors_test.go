package modules

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"goless.io/builder/handler"
	"goless.io/builder/internal/buildtest"
	"goless.io/builder/internal/diagnose"
)

// greeter is an invented module.
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

// greeting is a source that uses it.
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

// greeterProxy starts a proxy with greeter.
func greeterProxy(t *testing.T) string {
	t.Helper()
	return serveArchive(t, "example.com/greeter", greeter)
}

// greetingSource returns greeting with the checksums of the module from a proxy.
func greetingSource(t *testing.T, proxy string) string {
	t.Helper()
	lines, err := sums(t.Context(), proxy, "example.com/greeter", "v1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Replace(greeting, "SUMS\n", lines, 1)
}

func TestFetchReports(t *testing.T) {
	proxy := greeterProxy(t)
	source := greetingSource(t, proxy)
	base := machine(t, proxy)
	change := func(old, new string) string {
		if !strings.Contains(source, old) {
			t.Fatalf("the source has no %q", old)
		}
		return strings.Replace(source, old, new, 1)
	}
	mod, sums, _ := strings.Cut(source, "-- go.sum --\n")
	sum := strings.Fields(sums)[2]
	replaced := mod + "\nreplace example.com/greeter => example.com/fork v1.0.0\n-- go.sum --\n" + strings.ReplaceAll(sums, "greeter", "fork")
	const remedy = "vendor the modules with go mod vendor and builder pack, or use a module proxy that has them (GOPROXY on your machine, build.modules.goProxy in the cluster)"
	cases := map[string]struct {
		source string
		proxy  string
		want   string // PROXY is replaced with the address
	}{
		"WrongChecksum":  {change("v1.0.0 h1:", "v1.0.0 h1:x"), proxy, "go.mod:5:1: the checksum of example.com/greeter@v1.0.0 is " + sum + ", want " + strings.Replace(sum, ":", ":x", 1) + ": the module may have been modified; if go.sum is wrong, remove the line and run: builder tidy FILE"},
		"MissingSum":     {change("example.com/greeter v1.0.0 h1:", "example.com/other v1.0.0 h1:"), proxy, "go.mod:5:1: go.sum has no checksum of example.com/greeter@v1.0.0; add it with: builder tidy FILE"},
		"NoSums":         {source[:strings.Index(source, "-- go.sum")], proxy, "go.mod:5:1: go.sum has no checksum of example.com/greeter@v1.0.0; add it with: builder tidy FILE"},
		"MissingVersion": {strings.ReplaceAll(source, "v1.0.0", "v1.9.9"), proxy, "go.mod:5:1: example.com/greeter@v1.9.9 not found at the module proxy (404 Not Found); check its path and version; if it is private, " + remedy},
		"Replaced":       {replaced, proxy, "go.mod:7:1: example.com/fork@v1.0.0 not found at the module proxy (404 Not Found); check its path and version; if it is private, " + remedy},
		"MissingPackage": {change("example.com/greeter\"", "example.com/greeter\"\n\t_ \"example.com/greeter/none\""), proxy, "handler.go:8:2: no module in go.mod contains the package example.com/greeter/none; add it with: builder tidy FILE"},
		"Down":           {source, "http://127.0.0.1:1", "fetching modules failed: cannot fetch example.com/greeter@v1.0.0: Get \"http://127.0.0.1:1/example.com/greeter/@v/v1.0.0.zip\": dial tcp 127.0.0.1:1: connect: connection refused; " + remedy},
		"Off":            {source, "off", "go.mod:5:1: cannot fetch example.com/greeter@v1.0.0: module lookup disabled by GOPROXY=off; " + remedy},
		"Fine":           {source, proxy, "<nil>"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			tools := *base
			tools.Network = []string{"GOPROXY=" + c.proxy, "GOSUMDB=off"}
			err := Fetch(t.Context(), &tools, FetchOptions{Program: buildtest.Write(t, c.source), Timeout: buildtest.Timeout})
			if _, ok := errors.AsType[*handler.Error](err); !ok && err != nil && !errors.Is(err, diagnose.ErrFetch) {
				t.Errorf("Fetch: %v, want a *handler.Error or diagnose.ErrFetch", err)
			}
			if diff := cmp.Diff(c.want, fmt.Sprint(err)); diff != "" {
				t.Errorf("Fetch: -want +got\n%s", diff)
			}
		})
	}
}

// TestFetchFromPrivateProxy uses settings that an administrator makes for builds: a certificate
// authority, and credentials in a file.
func TestFetchFromPrivateProxy(t *testing.T) {
	proxy := greeterProxy(t)
	address, err := url.Parse(proxy)
	if err != nil {
		t.Fatal(err)
	}
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(address) }}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "builder" || password != "s3cret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="modules"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // errors of clients that do not trust it
	server.StartTLS()
	defer server.Close()
	tools := machine(t, server.URL)
	source := greetingSource(t, proxy)

	err = Fetch(t.Context(), tools, FetchOptions{Program: buildtest.Write(t, source), Timeout: buildtest.Timeout})
	if !errors.Is(err, diagnose.ErrFetch) || !strings.Contains(err.Error(), "certificate signed by unknown authority; vendor the modules with go mod vendor") {
		t.Errorf("Fetch from an unknown authority: %v", err)
	}

	authority, netrc := filepath.Join(t.TempDir(), "ca.crt"), filepath.Join(t.TempDir(), "netrc")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	credentials := "machine " + server.Listener.Addr().String() + " login builder password s3cret\n"
	if err := errors.Join(os.WriteFile(authority, certificate, 0o600), os.WriteFile(netrc, []byte(credentials), 0o600)); err != nil {
		t.Fatal(err)
	}
	tools.Network = append(tools.Network, "SSL_CERT_FILE="+authority)
	err = Fetch(t.Context(), tools, FetchOptions{Program: buildtest.Write(t, source), Timeout: buildtest.Timeout})
	if !errors.Is(err, diagnose.ErrFetch) || !strings.Contains(err.Error(), ": 401 Unauthorized server response: who are you?; vendor the modules with go mod vendor") {
		t.Errorf("Fetch without credentials: %v", err)
	}

	tools.Network = append(tools.Network, "NETRC="+netrc)
	binary, err := fetchAndBuild(t, tools, buildtest.Write(t, source), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := call(t, binary, "/"), "hello from a module"; got != want {
		t.Errorf("the function answers %q, want %q", got, want)
	}
}

// TestFetchEnds uses a proxy that never responds.
func TestFetchEnds(t *testing.T) {
	source := greetingSource(t, greeterProxy(t))
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer server.Close()
	tools := machine(t, server.URL)
	err := Fetch(t.Context(), tools, FetchOptions{Program: buildtest.Write(t, source), Timeout: time.Second})
	if !errors.Is(err, diagnose.ErrFetch) || !strings.Contains(err.Error(), "stopped after 1s") {
		t.Errorf("Fetch: %v, want ErrFetch because of the time", err)
	}
}

func TestFetchOfTooMuch(t *testing.T) {
	p := buildtest.Write(t, pinned(t, "current", libraries))
	err := Fetch(t.Context(), machine(t, serveModules(t).URL), FetchOptions{Program: p, Timeout: buildtest.Timeout, space: 1 << 20})
	failure, ok := errors.AsType[*handler.Error](err)
	if want := "go.mod:1:1: the required modules take more than 1 MiB; require fewer of them"; !ok || failure.Error() != want {
		t.Errorf("Fetch: %v, want %s", err, want)
	}
}
