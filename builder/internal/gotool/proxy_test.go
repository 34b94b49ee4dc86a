package gotool

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWithoutDirect(t *testing.T) {
	cases := map[string]struct {
		defaults string
		network  []string
		want     string
	}{
		"Default": {"# GOPROXY\nGOPROXY=https://proxy.example.com,direct\nGOSUMDB=off\n", nil, "https://proxy.example.com"},
		"Pipe":    {"GOPROXY=https://proxy.example.com|direct\n", nil, "https://proxy.example.com"},
		"Direct":  {"GOPROXY=direct\n", nil, "off"},
		"None":    {"", nil, "off"},
		"Set":     {"GOPROXY=https://proxy.example.com,direct\n", []string{"GOPROXY=direct"}, "direct"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			tools := &Toolchain{Root: t.TempDir(), Network: c.network}
			if err := os.WriteFile(filepath.Join(tools.Root, "go.env"), []byte(c.defaults), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := tools.WithoutDirect(); err != nil {
				t.Fatal(err)
			}
			if got := lookup(tools.Network, "GOPROXY"); got != c.want {
				t.Errorf("GOPROXY is %q, want %q", got, c.want)
			}
		})
	}
	if err := (&Toolchain{Root: t.TempDir()}).WithoutDirect(); err == nil {
		t.Error("a toolchain without defaults has some")
	}
}

// TestBrokenRuntime tells what a lack of memory does to a compiler from what is
// wrong with it.
func TestBrokenRuntime(t *testing.T) {
	p := write(t, hello)
	for name, c := range map[string]struct {
		limited bool
		want    bool
	}{"Limited": {true, true}, "Unlimited": {false, false}} {
		t.Run(name, func(t *testing.T) {
			r := ended(t)
			r.limited = c.limited
			r.stderr.WriteString("SIGSEGV: segmentation violation\nPC=0x43cefd m=2 sigcode=1 addr=0x0\n")
			tools := &Toolchain{Root: "/go", Cache: "/cache", Modules: "/mod"}
			if err := tools.explain(p, r); isLimit(err) != c.want {
				t.Errorf("it is explained as %v", err)
			}
		})
	}
}
