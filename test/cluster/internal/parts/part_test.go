package parts

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"goless.io/test/cluster/internal/progress"
)

func TestPrograms(t *testing.T) {
	var got []string
	for _, p := range all {
		got = append(got, p.programs()...)
	}
	want := []string{"kubernetes", "kubernetes-1.30", "coredns", "containerd", "containerd-shim-runc-v2", "pause"}
	if !slices.Equal(got, want) {
		t.Errorf("programs = %q, want %q", got, want)
	}
}

func TestKeyFollowsSource(t *testing.T) {
	source := t.TempDir()
	file := filepath.Join(source, "p", "go.mod")
	write(t, file, "module p\n")
	p := part{name: "p", dir: "p"}
	first := key(t, p, source, "go1.26.8")
	if again := key(t, p, source, "go1.26.8"); again != first {
		t.Errorf("key of the same source = %s, then %s", first, again)
	}
	if other := key(t, p, source, "go1.26.9"); other == first {
		t.Error("key is the same for another version of Go")
	}
	write(t, file, "module p // changed\n")
	if other := key(t, p, source, "go1.26.8"); other == first {
		t.Error("key is the same for another source")
	}
}

func TestKeyFollowsVersion(t *testing.T) {
	one, two := part{published: []string{"m/cmd/p@v1.0.0"}}, part{published: []string{"m/cmd/p@v1.0.1"}}
	if key(t, one, "", "go1.26.8") == key(t, two, "", "go1.26.8") {
		t.Error("key is the same for another published version")
	}
}

func TestIsCurrent(t *testing.T) {
	bin := t.TempDir()
	p := part{name: "p", dir: "cmd/p"}
	if p.isCurrent(bin, "k1") {
		t.Error("isCurrent before the build")
	}
	write(t, p.keyFile(bin), "k1")
	if p.isCurrent(bin, "k1") {
		t.Error("isCurrent without the program")
	}
	write(t, filepath.Join(bin, "p"), "program")
	if !p.isCurrent(bin, "k1") {
		t.Error("not isCurrent after the build")
	}
	if p.isCurrent(bin, "k2") {
		t.Error("isCurrent for another key")
	}
}

func TestKubernetesKnowsItsVersion(t *testing.T) {
	flags := part{main: "k8s.io/kubernetes"}.ldflags("v1.37.2")
	for _, want := range []string{"gitVersion=v1.37.2", "gitMajor=1", "gitMinor=37"} {
		if !strings.Contains(flags, "version."+want) {
			t.Errorf("ldflags = %q, want %s in them", flags, want)
		}
	}
}

func TestExists(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	write(t, file, "")
	for need, want := range map[string]bool{file: true, file + "x": false, "sh": true, "no-such-command": false} {
		if got := exists(need); got != want {
			t.Errorf("exists(%q) = %v", need, got)
		}
	}
}

func TestOtherSystemsAreToldWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // no command at all, no apt-get
	err := InstallPackages(progress.New(io.Discard))
	if err == nil || !strings.Contains(err.Error(), "runc nftables iptables iproute2") {
		t.Errorf("error = %v, want the packages in it", err)
	}
}

func key(t *testing.T, p part, source, goVersion string) string {
	t.Helper()
	k, err := p.key(source, goVersion)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
