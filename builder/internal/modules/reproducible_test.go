package modules

import (
	"bytes"
	"crypto/sha256"
	"os"
	"testing"

	"goless.io/builder/internal/buildtest"
	"goless.io/builder/internal/toolchain"
)

// TestBuildIsReproducible builds with an empty and with a filled build cache.
func TestBuildIsReproducible(t *testing.T) {
	proxy := greeterProxy(t)
	cold, warm := machine(t, proxy), machine(t, proxy)
	cold.Cache, cold.Sealed = t.TempDir(), false // sealed toolchains only read their cache
	buildAnonymous(t, cold, buildtest.Hello)
	cold.Sealed = true
	for name, source := range map[string]string{"Hello": buildtest.Hello, "Module": greetingSource(t, proxy), "Site": buildtest.Site} {
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

// buildAnonymous returns a binary, which must not contain the path where it was built.
func buildAnonymous(t *testing.T, tools *toolchain.Toolchain, source string) []byte {
	t.Helper()
	binary, err := fetchAndBuild(t, tools, buildtest.Write(t, source), nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{os.TempDir() + "/", tools.Root + "/src", tools.Modules, tools.Cache} {
		if bytes.Contains(data, []byte(secret)) {
			t.Errorf("the binary holds %q", secret)
		}
	}
	return data
}
