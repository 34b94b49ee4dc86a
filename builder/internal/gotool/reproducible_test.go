package gotool

import (
	"bytes"
	"crypto/sha256"
	"net/http/httptest"
	"os"
	"testing"
)

// TestBuildIsReproducible builds with the caches of two machines: one that
// compiles everything itself, and one that has done it before.
func TestBuildIsReproducible(t *testing.T) {
	proxy := greeterProxy(t)
	server := httptest.NewServer(proxy)
	defer server.Close()
	cold, warm := machine(t, server.URL), machine(t, server.URL)
	cold.Cache = t.TempDir()
	for name, source := range map[string]string{"Hello": hello, "Module": greetingSource(t, proxy), "Site": site} {
		t.Run(name, func(t *testing.T) {
			first := buildAnonymous(t, cold, source)
			for range 2 {
				if again := buildAnonymous(t, warm, source); sha256.Sum256(again) != sha256.Sum256(first) {
					t.Error("builds of one source differ")
				}
			}
		})
	}
}

// buildAnonymous returns a binary, which must not say where it was built.
func buildAnonymous(t *testing.T, toolchain *Toolchain, source string) []byte {
	t.Helper()
	binary, err := fetchAndBuild(t, toolchain, write(t, source), nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{os.TempDir(), toolchain.Root + "/src", toolchain.Modules, toolchain.Cache} {
		if bytes.Contains(data, []byte(secret)) {
			t.Errorf("the binary holds %q", secret)
		}
	}
	return data
}
