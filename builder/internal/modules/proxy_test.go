package modules

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"goless.io/builder/handler"
	"goless.io/builder/internal/buildtest"
	"goless.io/builder/internal/diagnose"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/sandbox"
	"goless.io/builder/internal/toolchain"
)

// TestPorts configures a module proxy, a checksum database, and HTTP proxies.
func TestPorts(t *testing.T) {
	for name, c := range map[string]struct {
		network []string
		want    []uint16
	}{
		"None":    {nil, []uint16{443}},
		"Off":     {[]string{"GOPROXY=off", "GOSUMDB=off"}, []uint16{443}},
		"Proxies": {[]string{"GOPROXY=https://a.example,http://b.example:3000|file:///c,direct"}, []uint16{443, 443, 3000}},
		"Plain":   {[]string{"GOPROXY=http://a.example"}, []uint16{443, 80}},
		"Sums":    {[]string{"GOSUMDB=sum.example+key https://sum.example:8443"}, []uint16{443, 8443}},
		"Way":     {[]string{"HTTPS_PROXY=proxy.example:3128", "http_proxy=socks5://proxy.example"}, []uint16{443, 3128, 1080}},
		"Last":    {[]string{"GOPROXY=http://a.example:1", "GOPROXY=http://a.example:2"}, []uint16{443, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ports(&toolchain.Toolchain{Network: c.network}); !slices.Equal(got, c.want) {
				t.Errorf("ports: %v, want %v", got, c.want)
			}
		})
	}
}

// TestFetchIsConfined uses a proxy that redirects the go command, as an attacker would to scan a
// cluster.
func TestFetchIsConfined(t *testing.T) {
	if sandbox.LandlockVersion() < 4 {
		t.Skip("the kernel cannot keep the go command from the network, which needs Linux 6.7")
	}
	elsewhere := serveModules(t)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusFound)
	}))
	defer proxy.Close()
	err := Fetch(t.Context(), machine(t, proxy.URL), FetchOptions{Program: buildtest.Write(t, pinned(t, "current", libraries)), Timeout: buildtest.Timeout})
	if !errors.Is(err, diagnose.ErrFetch) || !strings.Contains(err.Error(), "connect: permission denied") {
		t.Errorf("Fetch: %v, want ErrFetch because it may not connect", err)
	}
	if len(elsewhere.paths) > 0 {
		t.Errorf("it has asked for %q", elsewhere.paths)
	}
}

// TestFetchingReads runs a command in the sandbox for fetching modules: it can read its own files,
// and no others in the container.
func TestFetchingReads(t *testing.T) {
	if !sandbox.ConfinesFiles() {
		t.Skip("the kernel cannot keep the go command from files, which needs Landlock")
	}
	own, secret := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	if err := errors.Join(os.WriteFile(filepath.Join(own, "mine"), []byte("mine"), 0o600), os.WriteFile(secret, []byte("secret"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{goMod, goSum} {
		if err := os.WriteFile(filepath.Join(own, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	policy := fetchPolicy(&toolchain.Toolchain{Root: own, Modules: own, Cache: own, Sealed: true}, &program.Program{Dir: own, Source: &handler.Source{}}, own, 0)
	for _, dir := range []string{"/bin", "/lib", "/lib64", "/usr"} { // for the command
		if _, err := os.Stat(dir); err == nil {
			policy.Read = append(policy.Read, dir)
		}
	}
	r, err := sandbox.Run(t.Context(), sandbox.Command{Policy: policy, Args: []string{"/bin/cat", filepath.Join(own, "mine"), secret}})
	if err == nil || r.Stdout.String() != "mine" || !strings.Contains(r.Stderr.String(), "Permission denied") {
		t.Errorf("it ended with %v, read %q and said %q; want its own file alone", err, &r.Stdout, &r.Stderr)
	}
}

// TestFetchingWrites runs a command in the sandbox for fetching modules. It can change the content
// of go.mod, go.sum and the module cache, and no other files of the program.
func TestFetchingWrites(t *testing.T) {
	if !sandbox.ConfinesFiles() {
		t.Skip("the kernel cannot keep the go command from files, which needs Landlock")
	}
	tools := &toolchain.Toolchain{Root: t.TempDir(), Modules: t.TempDir(), Cache: t.TempDir(), Sealed: true}
	p := buildtest.Write(t, pinned(t, "current", libraries))
	if err := openModules(tools, p); err != nil {
		t.Fatal(err)
	}
	policy := fetchPolicy(tools, p, t.TempDir(), 0)
	for _, dir := range []string{"/bin", "/lib", "/lib64", "/usr"} { // for the commands
		if _, err := os.Stat(dir); err == nil {
			policy.Read = append(policy.Read, dir)
		}
	}
	for _, c := range []struct {
		command string
		allowed bool
	}{
		{"echo >> go.mod", true},
		{"echo >> go.sum", true},
		{"mkdir -p dependencies/modules/a && echo > dependencies/modules/a/b", true},
		{"ln -s /etc/passwd dependencies/modules/link", false},
		{"rm -f go.mod", false},
		{"mv go.mod dependencies/modules/", false},
		{"mkdir dependencies/packages", false},
		{"ln -s /tmp dependencies/packages", false},
		{"mv dependencies/modules dependencies/packages", false},
		{"echo >> handler/go.mod", false},
		{"echo > main.go", false},
	} {
		_, err := sandbox.Run(t.Context(), sandbox.Command{Policy: policy, Dir: p.Dir, Args: []string{"/bin/sh", "-c", c.command}})
		if (err == nil) != c.allowed {
			t.Errorf("%s: %v, want that it is allowed: %t", c.command, err, c.allowed)
		}
	}
}
