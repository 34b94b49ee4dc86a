package modules

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/goproxytest"

	"goless.io/builder/handler"
	"goless.io/builder/internal/buildtest"
)

// unusable are versions of modules that the runtime requires but does not compile with.
var unusable = map[string]string{
	"go.uber.org_zap_v1.0.0":                     "-- go.mod --\nmodule go.uber.org/zap\n-- zap.go --\npackage zap\n",
	"go.uber.org_zap_v1.999.0":                   "-- go.mod --\nmodule go.uber.org/zap\n-- zap.go --\npackage zap\n",
	"example.com_fork_v1.2.3":                    "-- go.mod --\nmodule example.com/fork\n-- prometheus/p.go --\npackage prometheus\n-- prometheus/promhttp/p.go --\npackage promhttp\n-- prometheus/collectors/c.go --\npackage collectors\n",
	"github.com_prometheus_client_golang_v1.0.0": "-- go.mod --\nmodule github.com/prometheus/client_golang\n-- prometheus/p.go --\npackage prometheus\n-- prometheus/promhttp/p.go --\npackage promhttp\n-- prometheus/collectors/c.go --\npackage collectors\n",
	"github.com_prometheus_client_model_v0.0.1":  "-- go.mod --\nmodule github.com/prometheus/client_model\n-- go/m.go --\npackage io_prometheus_client\n",
	"github.com_munnerz_goautoneg_v1.0.0":        "-- go.mod --\nmodule github.com/munnerz/goautoneg\n-- g.go --\npackage goautoneg\n",
}

// overridingProxies starts a proxy for unusable. It returns the GOPROXY that also has all other
// modules.
func overridingProxies(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, archive := range unusable {
		if err := os.WriteFile(filepath.Join(dir, name+".txtar"), []byte(archive), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return goproxytest.NewTestServer(t, dir, "").URL + "," + serveModules(t).URL
}

// TestTidyOverridden tidies a go.mod with a replacement that the runtime does not compile with. The
// error must not suggest to tidy again, which would not help.
func TestTidyOverridden(t *testing.T) {
	tools, dir := workbench(t, "GOPROXY="+overridingProxies(t), "GOSUMDB=off", "GOFLAGS=-modcacherw"), t.TempDir()
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "handler.go"), []byte(strings.Replace(buildtest.Hello, "import ", "import _ \"example.com/fork/prometheus\"\nimport ", 1)), 0o644),
		os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/m\n\ngo 1.26\n\nreplace go.uber.org/zap => go.uber.org/zap v1.0.0\n"), 0o644),
	); err != nil {
		t.Fatal(err)
	}
	err := Tidy(t.Context(), tools, dir, "")
	want := "the generated program needs go.uber.org/zap v1.28.0 and does not compile with go.uber.org/zap v1.0.0; "
	if _, ok := errors.AsType[*handler.Error](err); !ok || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "builder tidy") {
		t.Errorf("Tidy: %v, want %s", err, want)
	}
}

// TestOverrides replaces modules that the runtime requires with versions that it does not compile
// with, requires such versions, and replaces modules that the function does not need.
func TestOverrides(t *testing.T) {
	proxies := overridingProxies(t)
	const (
		zap     = "the generated program needs go.uber.org/zap v1.28.0 and does not compile with "
		metrics = "the generated program needs github.com/prometheus/client_golang v1.25.0 and does not compile with "
		replace = "; replace it by v1.28.0 or a newer version, or remove the line: "
		some    = "require go.uber.org/multierr v1.10.0\n"
	)
	for name, c := range map[string]struct{ mod, used, want string }{
		"Packages":  {some + "replace go.uber.org/zap => go.uber.org/zap v1.0.0\n", "go.uber.org/zap@v1.0.0", "go.mod:6:1: " + zap + "go.uber.org/zap v1.0.0" + replace + "it has no package go.uber.org/zap/"},
		"Version":   {some + "replace go.uber.org/zap v1.28.0 => go.uber.org/zap v1.0.0\n", "go.uber.org/zap@v1.0.0", "go.mod:6:1: " + zap + "go.uber.org/zap v1.0.0" + replace + "it has no package go.uber.org/zap/"},
		"Required":  {"require go.uber.org/zap v1.0.0\nreplace go.uber.org/zap => go.uber.org/zap v1.0.0\n", "go.uber.org/zap@v1.0.0", "go.mod:6:1: " + zap + "go.uber.org/zap v1.0.0" + replace + "it has no package go.uber.org/zap/"},
		"Newer":     {"require go.uber.org/zap v1.999.0\n", "go.uber.org/zap@v1.999.0", "go.mod:5:1: " + zap + "v1.999.0; require v1.28.0: it has no package go.uber.org/zap/"},
		"Types":     {some + "replace github.com/prometheus/client_golang => github.com/prometheus/client_golang v1.0.0\n", "github.com/prometheus/client_golang@v1.0.0", "go.mod:6:1: " + metrics + "github.com/prometheus/client_golang v1.0.0; replace it by v1.25.0 or a newer version, or remove the line: runtime/"},
		"Fork":      {some + "replace github.com/prometheus/client_golang => example.com/fork v1.2.3\n", "example.com/fork@v1.2.3", "go.mod:6:1: " + metrics + "example.com/fork v1.2.3; replace it by v1.25.0 or a newer version, or remove the line: runtime/"},
		"Indirect":  {some + "replace github.com/prometheus/client_model => github.com/prometheus/client_model v0.0.1\n", "github.com/prometheus/client_model@v0.0.1", "go.mod:6:1: the generated program needs github.com/prometheus/client_model v0.6.3 and does not compile with github.com/prometheus/client_model v0.0.1; replace it by v0.6.3 or a newer version, or remove the line: "},
		"Unneeded":  {"replace go.uber.org/zap => go.uber.org/zap v1.0.0\n", "", ""},
		"Excluded":  {"exclude go.uber.org/zap v1.28.0\n", "", ""},
		"Excluded2": {some + "exclude go.uber.org/zap v1.28.0\n", "go.uber.org/multierr@v1.10.0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := fetchAndBuild(t, machine(t, proxies), buildtest.Write(t, overriding(t, proxies, c.mod, c.used)), nil)
			if c.want == "" && err == nil {
				return
			}
			if _, ok := errors.AsType[*handler.Error](err); !ok || c.want == "" || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "builder tidy") {
				t.Errorf("the build: %v\nwant %s", err, c.want)
			}
		})
	}
}

// overriding returns a source with lines in its go.mod, and the checksums of the module that these
// lines select.
func overriding(t *testing.T, proxies, mod, used string) string {
	t.Helper()
	source := "-- handler.go --\n" + buildtest.Hello + "-- go.mod --\nmodule example.com/m\n\ngo 1.26\n\n" + mod
	path, version, ok := strings.Cut(used, "@")
	if !ok {
		return source
	}
	lines, err := sums(t.Context(), proxies, path, version)
	if err != nil {
		t.Fatal(err)
	}
	return source + "-- go.sum --\n" + lines
}
