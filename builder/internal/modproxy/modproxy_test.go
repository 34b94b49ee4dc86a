package modproxy_test

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"goless.io/builder/internal/modproxy"
)

const greeter = "-- go.mod --\nmodule example.com/Greeter\n\ngo 1.21\n-- greeter.go --\npackage greeter\n"

// TestProxy has the go command as its client.
func TestProxy(t *testing.T) {
	var log strings.Builder
	p := &modproxy.Proxy{Log: &log}
	for _, version := range []string{"v1.0.0", "v1.1.0"} {
		if err := p.Add("example.com/Greeter", version, []byte(greeter)); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(p)
	defer server.Close()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module m\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "get", "example.com/Greeter")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-modcacherw", "GOSUMDB=off", "GOPROXY="+server.URL, "GOMODCACHE="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go get: %v\n%s", err, out)
	}
	sums, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := p.Sums("example.com/Greeter", "v1.1.0")
	if err != nil {
		t.Fatal(err)
	}
	if string(sums) != want {
		t.Errorf("go.sum is %q, Sums returns %q", sums, want)
	}
	if requests := strings.Join(p.Requests(), "\n") + "\n"; log.String() != requests || !strings.Contains(requests, "/example.com/!greeter/@v/v1.1.0.zip\n") {
		t.Errorf("the log is %q, the requests are %q", &log, requests)
	}
	if _, err := p.Sums("example.com/Greeter", "v9.0.0"); err == nil {
		t.Error("Sums has those of a version that is not there")
	}
}
