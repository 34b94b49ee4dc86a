package images_test

import (
	"archive/tar"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"goless.io/test/cluster/internal/images"
)

func TestPush(t *testing.T) {
	handler, err := images.NewRegistry(t.TempDir(), log.New(io.Discard, "", 0))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	program := filepath.Join(t.TempDir(), "pause")
	if err := os.WriteFile(program, []byte("a program"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := images.Push(address, program); err != nil {
		t.Fatal(err)
	}

	static := pull(t, images.StaticRef(address))
	config, err := static.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.OS != "linux" || config.Architecture != runtime.GOARCH || config.Config.User != "65532:65532" {
		t.Errorf("static base: %s/%s, user %s", config.OS, config.Architecture, config.Config.User)
	}
	modes := modes(t, static)
	for file, mode := range map[string]int64{
		"etc/passwd":                        0o644,
		"etc/ssl/certs/ca-certificates.crt": 0o644,
		"usr/share/zoneinfo/Europe/Berlin":  0o644,
		"tmp":                               0o1777,
	} {
		if got, ok := modes[file]; !ok || got != mode {
			t.Errorf("static base: %s has mode %o, want %o", file, got, mode)
		}
	}
	if mode := modesOf(t, images.PauseRef(address))["pause"]; mode != 0o755 {
		t.Errorf("pause image: program has mode %o, want 755", mode)
	}

	// ko keys its cache by the digest of the base.
	before, err := static.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if err := images.Push(address, program); err != nil {
		t.Fatal(err)
	}
	if after, err := pull(t, images.StaticRef(address)).Digest(); err != nil || after != before {
		t.Errorf("second static base is %v (%v), want %v again", after, err, before)
	}
}

func modesOf(t *testing.T, reference string) map[string]int64 {
	t.Helper()
	return modes(t, pull(t, reference))
}

func pull(t *testing.T, reference string) v1.Image {
	t.Helper()
	ref, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	image, err := remote.Image(ref)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func modes(t *testing.T, image v1.Image) map[string]int64 {
	t.Helper()
	content := mutate.Extract(image)
	defer content.Close() //nolint:errcheck // it was only read
	modes := make(map[string]int64)
	for files := tar.NewReader(content); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return modes
		}
		if err != nil {
			t.Fatal(err)
		}
		modes[header.Name] = header.Mode
	}
}
