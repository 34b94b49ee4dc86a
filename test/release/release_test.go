// Package release tests "make release" and tools/publish.sh with a local registry and key. make
// release-test runs it.
package release

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

const (
	version = "v1.2.3"
	root    = "../.."
)

var full = flag.Bool("full", false, "make the images for amd64 and arm64, as a release has them, and not only for this machine")

// platforms returns the platforms of the images.
func platforms() []string {
	if *full {
		return []string{"linux/amd64", "linux/arm64"}
	}
	return []string{"linux/" + runtime.GOARCH}
}

// section is the section in CHANGELOG.md for the release of the tests.
const section = "## [1.2.3] - 2026-01-02\n\nCommit: this one\n\n### Added\n\n- This test.\n\n## [1.2.2] - 2026-01-01\n\nCommit: 0123\n"

// A checkout is a clone of this repository in its own directory, with the tools and the data of
// the builder's image, which take minutes to create.
type checkout struct {
	*testing.T
	dir string
	env []string
}

func clone(t *testing.T, from, dir string) *checkout {
	t.Helper()
	c := &checkout{T: t, dir: dir, env: append(os.Environ(), "GOWORK=", "MAKEFLAGS=")} // this test is outside of the workspace
	run(t, ".", nil, "git", "clone", "--quiet", from, dir)
	for _, name := range []string{".cache/bin", "builder/cmd/builder/kodata"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		run(t, ".", nil, "cp", "--archive", "--link", filepath.Join(root, name), filepath.Join(dir, name))
	}
	return c
}

func (c *checkout) git(args ...string) string {
	c.Helper()
	identity := []string{"-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"}
	return strings.TrimSpace(run(c.T, c.dir, nil, "git", append(identity, args...)...))
}

// release runs make release, and returns its output.
func (c *checkout) release(repository string, args ...string) (string, error) {
	args = append([]string{"release", "KO_DOCKER_REPO=" + repository, "PLATFORMS=" + strings.Join(platforms(), ",")}, args...)
	cmd := exec.CommandContext(c.Context(), "make", args...)
	cmd.Dir, cmd.Env = c.dir, c.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (c *checkout) read(name string) string {
	c.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, name))
	if err != nil {
		c.Fatal(err)
	}
	return string(text)
}

func (c *checkout) write(name, text string) {
	c.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o644); err != nil {
		c.Fatal(err)
	}
}

// run runs a command and returns its output.
func run(t *testing.T, dir string, stdin []byte, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
}

// TestRelease releases the last commit of this repository, with a section for the version of
// the tests in its CHANGELOG.md.
func TestRelease(t *testing.T) {
	work, err := filepath.Abs(filepath.Join(root, ".cache", "release-test"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(work); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(work) }) // what remains is removed the next time
	host := serveRegistry(t)
	repository := host + "/goless"

	first := clone(t, root, filepath.Join(work, "first"))
	first.write("CHANGELOG.md", "# Changelog\n\n"+section)
	first.git("commit", "--quiet", "--all", "--message=changelog of a test")
	commit := first.git("rev-parse", "HEAD")
	first.refuses(repository)
	first.make(repository)

	second := clone(t, first.dir, filepath.Join(work, "elsewhere", "second"))
	_, base, _ := strings.Cut(first.read("dist/RELEASE_NOTES.md"), " on the base image ")
	base, _, _ = strings.Cut(base, ",")
	second.env = append(second.env, "TZ=Asia/Kathmandu", "LC_ALL=C.UTF-8", "KO_DEFAULTBASEIMAGE="+base)
	second.make(repository)
	for _, c := range []*checkout{first, second} {
		run(t, filepath.Join(c.dir, "dist"), nil, "sha256sum", "--check", "--strict", "--quiet", "checksums.txt")
	}
	if a, b := first.read("dist/checksums.txt"), second.read("dist/checksums.txt"); a != b {
		t.Errorf("two releases of one commit differ. The first is\n%s\nand the second\n%s", a, b)
	}

	first.hasItsFiles()
	first.namesDigests(repository)
	first.namesModules()
	first.namesVersion(commit)
	t.Run("Publish", func(t *testing.T) {
		if _, err := exec.LookPath("ssh-keygen"); err != nil {
			t.Skip("ssh-keygen, which signs the release, is not installed; install openssh-client")
		}
		first.T = t
		first.publishes(repository)
		for image := range strings.Lines(first.read("dist/images.txt")) {
			first.isOfVersion(strings.TrimSpace(image), commit)
		}
	})
}

func (c *checkout) make(repository string) {
	c.Helper()
	if out, err := c.release(repository, "VERSION="+version); err != nil {
		c.Fatalf("make release: %v\n%s", err, out)
	}
}

// refuses tests that invalid releases are rejected.
func (c *checkout) refuses(repository string) {
	for name, test := range map[string]struct {
		repository, version, uncommitted, want string
	}{
		"NoVersion":     {repository, "", "", "VERSION is not set: set it to one such as v0.1.0"},
		"WrongVersion":  {repository, "1.2.3", "", "VERSION is 1.2.3: set it to one such as v0.1.0"},
		"NoRepository":  {"", version, "", "KO_DOCKER_REPO is not set: set it to the future repository of the images"},
		"NoSection":     {repository, "v1.2.0", "", "CHANGELOG.md has no section ## [1.2.0]"},
		"AnotherCommit": {repository, "v1.2.2", "", "CHANGELOG.md says that v1.2.2 was built from commit 0123, not from "},
		"Uncommitted":   {repository, version, "package main", "uncommitted changes: see git status"},
	} {
		c.Run(name, func(t *testing.T) {
			other := *c
			other.T = t
			if test.uncommitted != "" {
				file := filepath.Join(c.dir, "builder", "cmd", "builder", "another.go")
				other.write("builder/cmd/builder/another.go", test.uncommitted)
				defer os.Remove(file) //nolint:errcheck // the next release fails if it is still there
			}
			out, err := other.release(test.repository, "VERSION="+test.version)
			if err == nil || !strings.Contains(out, test.want) {
				t.Errorf("make release: %v, want %q in\n%s", err, test.want, out)
			}
		})
	}
}

func (c *checkout) hasItsFiles() {
	c.Helper()
	listed := c.read("dist/checksums.txt")
	for _, name := range []string{
		"install.yaml", "images.txt", "goless-1.2.3.tgz", "RELEASE_NOTES.md",
		"images/goless-operator/index.json", "images/goless-activator/index.json", "images/builder/index.json", "images/launch/index.json",
		"images/goless-triggers/index.json", "images/deliver/index.json", "images/consume/index.json",
		"sboms/functions.spdx.json", "sboms/cli-windows-amd64.spdx.json",
		"builder-linux-amd64", "builder-linux-arm64", "builder-darwin-amd64", "builder-darwin-arm64", "builder-windows-amd64.exe", "builder-windows-arm64.exe",
	} {
		if !strings.Contains(listed, "  "+name+"\n") {
			c.Errorf("checksums.txt does not contain %s:\n%s", name, listed)
		}
	}
}

// digest matches an image reference with a digest.
var digest = regexp.MustCompile(`^[^@]+@sha256:[0-9a-f]{64}$`)

// namesDigests checks each line with an image in install.yaml and in the chart's values.
func (c *checkout) namesDigests(repository string) {
	c.Helper()
	chart := run(c.T, c.dir, nil, "tar", "--extract", "--to-stdout", "--gzip", "--file=dist/goless-1.2.3.tgz", "goless/values.yaml", "goless/Chart.yaml")
	deploy := run(c.T, c.dir, nil, "bash", "-c", "cat deploy/*.yaml")
	c.namesImages("install.yaml", c.read("dist/install.yaml"), repository, strings.Count(deploy, "ko://"))
	c.namesImages("the chart", chart, repository, strings.Count(c.read("dist/images.txt"), "\n"))
	if !strings.Contains(chart, "\nversion: 1.2.3\n") || !strings.Contains(chart, "\nappVersion: 1.2.3\n") {
		c.Errorf("the chart has another version: %s", chart)
	}
}

func (c *checkout) namesImages(name, text, repository string, count int) {
	c.Helper()
	if strings.Contains(text, "ko://") {
		c.Errorf("%s contains a reference that ko resolves", name)
	}
	images := c.read("dist/images.txt")
	for line := range strings.Lines(text) {
		if !strings.Contains(line, repository) {
			continue
		}
		count--
		fields := strings.Fields(line)
		if image := fields[len(fields)-1]; !digest.MatchString(image) || !strings.Contains(images, image+"\n") {
			c.Errorf("%s contains the image %s, which is not in images.txt", name, image)
		}
	}
	if count != 0 {
		c.Errorf("unexpected number of images in %s: %d are missing", name, count)
	}
}

// namesModules checks the SBOMs of images, of the builder for another system, and of the
// modules that functions link.
func (c *checkout) namesModules() {
	c.Helper()
	linux := "-linux-" + runtime.GOARCH
	for sbom, modules := range map[string][]string{
		"goless-operator" + linux:  {"goless.io/operator", "goless.io/builder", "sigs.k8s.io/controller-runtime"},
		"goless-activator" + linux: {"goless.io/operator", "k8s.io/client-go"},
		"builder" + linux:          {"goless.io/builder", "github.com/spf13/cobra", "go.uber.org/zap"},
		"launch" + linux:           {"goless.io/runtime"},
		"goless-triggers" + linux:  {"goless.io/trigger", "goless.io/operator", "k8s.io/client-go"},
		"deliver" + linux:          {"goless.io/trigger"},
		"consume" + linux:          {"goless.io/trigger", "github.com/nats-io/nats.go", "github.com/twmb/franz-go"},
		"cli-windows-amd64":        {"github.com/spf13/cobra"},
		"functions":                {"go.uber.org/zap", "github.com/prometheus/client_golang"},
	} {
		text := c.read("dist/sboms/" + sbom + ".spdx.json")
		for _, module := range append(modules, "stdlib") {
			if !strings.Contains(text, fmt.Sprintf("%q: %q", "name", module)) {
				c.Errorf("the SBOM of %s does not contain %s", sbom, module)
			}
		}
	}
}
