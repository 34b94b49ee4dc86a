package release

import (
	"archive/tar"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// serveRegistry serves a registry until the test ends, with an empty base image for ko. It
// returns the address.
func serveRegistry(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	var base v1.ImageIndex = empty.Index
	for _, platform := range platforms() {
		of := &v1.Platform{OS: "linux", Architecture: path.Base(platform)}
		image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: of.OS, Architecture: of.Architecture})
		if err != nil {
			t.Fatal(err)
		}
		base = mutate.AppendManifests(base, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: of}})
	}
	if err := remote.WriteIndex(reference(t, host+"/base:latest"), base); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KO_DEFAULTBASEIMAGE", host+"/base:latest")
	return host
}

func reference(t *testing.T, text string) name.Reference {
	t.Helper()
	ref, err := name.ParseReference(text)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// publishes tests tools/publish.sh with a new key. The checksums can be verified with the
// public key, and the registry contains the images in install.yaml.
func (c *checkout) publishes(repository string) {
	c.Helper()
	key := filepath.Join(c.TempDir(), "key")
	run(c.T, ".", nil, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
	run(c.T, c.dir, nil, "env", "HELM_FLAGS=--plain-http", "tools/publish.sh", key)

	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		c.Fatal(err)
	}
	signers := filepath.Join(c.TempDir(), "signers")
	if err := os.WriteFile(signers, append([]byte("release@goless.io "), public...), 0o644); err != nil {
		c.Fatal(err)
	}
	run(c.T, c.dir, []byte(c.read("dist/checksums.txt")), "ssh-keygen", "-Y", "verify", "-f", signers,
		"-I", "release@goless.io", "-n", "goless-release", "-s", "dist/checksums.txt.sig")

	for image := range strings.Lines(c.read("dist/images.txt")) {
		image = strings.TrimSpace(image)
		tagged, _, _ := strings.Cut(image, "@")
		for _, published := range []string{image, tagged + ":" + version} {
			if _, err := remote.Head(reference(c.T, published)); err != nil {
				c.Errorf("%s is not in the registry: %v", published, err)
			}
		}
	}
	if _, err := remote.Head(reference(c.T, repository+"/charts/goless:1.2.3")); err != nil {
		c.Errorf("the chart is not in the registry: %v", err)
	}
	c.publishesOnce(repository, key)
}

// publishesOnce tests that a published version is not replaced.
func (c *checkout) publishesOnce(repository, key string) {
	c.Helper()
	name := repository + "/launch:" + version
	if err := remote.Write(reference(c.T, name), empty.Image); err != nil {
		c.Fatal(err)
	}
	cmd := exec.CommandContext(c.Context(), "tools/publish.sh", key)
	cmd.Dir = c.dir
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), name+" is already published with digest sha256:") {
		c.Errorf("tools/publish.sh replaced %s: %v\n%s", name, err, out)
	}
}

// says returns the output of a program's --version.
func says(program, commit string) string {
	return fmt.Sprintf("%s %s (commit %s, %s)", program, version, commit, runtime.Version())
}

// namesVersion tests that the release notes and the builder for each platform contain the
// version.
func (c *checkout) namesVersion(commit string) {
	c.Helper()
	want := says("builder", commit)
	if out := run(c.T, c.dir, nil, "dist/builder-linux-"+runtime.GOARCH, "version"); !strings.HasPrefix(out, want) {
		c.Errorf("the builder prints %q, want %q", out, want)
	}
	for _, platform := range []string{"linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64", "windows-amd64.exe", "windows-arm64.exe"} {
		if program := c.read("dist/builder-" + platform); !strings.Contains(program, version) || !strings.Contains(program, commit) {
			c.Errorf("the builder for %s has another version", platform)
		}
	}
	if notes := c.read("dist/RELEASE_NOTES.md"); !strings.Contains(notes, "\nCommit: "+commit+"\n") || strings.Contains(notes, "1.2.2") {
		c.Errorf("the release notes are\n%s", notes)
	}
}

// isOfVersion checks the labels of an image in the registry, and the version that its program
// prints.
func (c *checkout) isOfVersion(name, commit string) {
	c.Helper()
	ref := reference(c.T, name)
	image, err := remote.Image(ref, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
	if err != nil {
		c.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		c.Fatal(err)
	}
	if labels := config.Config.Labels; labels["org.opencontainers.image.version"] != version || labels["org.opencontainers.image.revision"] != commit {
		c.Errorf("unexpected labels of %s: %v", ref, labels)
	}
	program := path.Base(ref.Context().RepositoryStr())
	want := says(program, commit)
	file := c.extract(image, path.Join("ko-app", program))
	if out := run(c.T, c.dir, nil, file, "--version"); !strings.HasPrefix(out, want) {
		c.Errorf("%s prints %q, want %q", program, out, want)
	}
	if program == "launch" { // which passes it to functions, for their metrics
		if out := run(c.T, c.dir, nil, file, "/usr/bin/env"); !strings.Contains(out, "GOLESS_VERSION="+version+"\n") {
			c.Errorf("launch runs functions with the environment\n%s", out)
		}
	}
}

// extract writes a file of an image to a temporary file and returns its name.
func (c *checkout) extract(image v1.Image, name string) string {
	c.Helper()
	content := mutate.Extract(image)
	defer content.Close() //nolint:errcheck // it was only read
	for files := tar.NewReader(content); ; {
		header, err := files.Next()
		if err != nil {
			c.Fatalf("looking for %s in an image: %v", name, err)
		}
		if strings.TrimPrefix(header.Name, "/") != name {
			continue
		}
		data, err := io.ReadAll(files)
		if err != nil {
			c.Fatal(err)
		}
		file := filepath.Join(c.TempDir(), path.Base(name))
		if err := os.WriteFile(file, data, 0o755); err != nil {
			c.Fatal(err)
		}
		return file
	}
}
