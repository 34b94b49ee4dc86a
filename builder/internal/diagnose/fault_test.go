package diagnose

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"goless.io/builder/internal/buildtest"
)

const demanding = `
-- handler.go --
package p

import (
	"net/http"

	"example.com/a/sub"
)

func Handler(http.ResponseWriter, *http.Request) { sub.Do() }
-- go.mod --
module example.com/p

go 1.26

require (
	example.com/a v1.0.0
	example.com/b v1.2.0
)
`

const administrator = "; vendor the modules with go mod vendor and builder pack, or use a module proxy that has them (GOPROXY on your machine, build.modules.goProxy in the cluster)"

// TestFaults covers messages of the go command that tests cannot provoke with a proxy.
func TestFaults(t *testing.T) {
	p := buildtest.Write(t, demanding)
	cases := map[string]struct {
		pkg, place, text string
		want             string
		remedy           Remedy
		fetch            bool
	}{
		"Forbidden": {
			pkg: "example.com/a/sub", place: "handler/handler.go:6:2",
			text:  "example.com/a@v1.0.0: reading https://proxy.example.com/example.com/a/@v/v1.0.0.zip: 403 Forbidden\n\tserver response: This version is not available.",
			want:  "go.mod:6:2: cannot fetch example.com/a@v1.0.0: reading https://proxy.example.com/example.com/a/@v/v1.0.0.zip: 403 Forbidden server response: This version is not available." + administrator,
			fetch: true,
		},
		"NotFoundInGraph": {
			text: "go: example.com/b@v1.2.0 requires\n\texample.com/c@v0.1.0: reading https://proxy.example.com/example.com/c/@v/v0.1.0.mod: 404 Not Found",
			want: "go.mod:7:2: example.com/c@v0.1.0 not found at the module proxy (404 Not Found); check its path and version; if it is private, " + administrator[2:],
		},
		"Unavailable": {
			pkg:   "example.com/a/sub",
			text:  "example.com/a@v1.0.0: reading https://proxy.example.com/example.com/a/@v/v1.0.0.zip: 503 Service Unavailable",
			want:  "go.mod:6:2: cannot fetch example.com/a@v1.0.0: reading https://proxy.example.com/example.com/a/@v/v1.0.0.zip: 503 Service Unavailable" + administrator,
			fetch: true,
		},
		"VersionControl": {
			text: "go: example.com/b@v1.2.0: GOVCS disallows using git for public example.com/b; see 'go help vcs'",
			want: "go.mod:7:2: cannot fetch example.com/b@v1.2.0: GOVCS disallows using git for public example.com/b" + administrator + "; goPrivate and goNoProxy must not match it, because they bypass the proxy",
		},
		"TooNew": {
			text: "go: example.com/b@v1.2.0 requires go >= 1.99.0 (running go 1.27.4; GOTOOLCHAIN=local)",
			want: "go.mod:7:2: example.com/b@v1.2.0 requires go >= 1.99.0 (running go 1.27.4; GOTOOLCHAIN=local)",
		},
		"GoTooNew": {
			text: "go: go.mod requires go >= 1.27 (running go 1.26.8; GOTOOLCHAIN=local)",
			want: "go.mod:1:1: go.mod requires go >= 1.27 (running go 1.26.8; GOTOOLCHAIN=local)",
		},
		"OtherPath": {
			text: "go: example.com/b@v1.2.0: parsing go.mod:\n\tmodule declares its path as: example.org/b\n\t        but was required as: example.com/b",
			want: "go.mod:7:2: example.com/b@v1.2.0: parsing go.mod: module declares its path as: example.org/b but was required as: example.com/b",
		},
		"Ambiguous": {
			pkg: "example.com/a/sub", place: "handler/handler.go:6:2",
			text: "ambiguous import: found package example.com/a/sub in multiple modules:\n\texample.com/a v1.0.0 (/x)\n\texample.com/a/sub v1.0.0 (/y)",
			want: "go.mod:6:2: example.com/a@v1.0.0: ambiguous import: found package example.com/a/sub in multiple modules: example.com/a v1.0.0 (/x) example.com/a/sub v1.0.0 (/y)",
		},
		"Database": {
			pkg: "example.com/a/sub", place: "handler/handler.go:6:2",
			text:  "example.com/a@v1.0.0: verifying module: example.com/a@v1.0.0: reading https://sumdb.example.com/lookup/example.com/a@v1.0.0: 502 Bad Gateway",
			want:  "go.mod:6:2: cannot fetch example.com/a@v1.0.0: reading https://sumdb.example.com/lookup/example.com/a@v1.0.0: 502 Bad Gateway" + administrator,
			fetch: true,
		},
		"Checksum": {
			text: "go: downloading example.com/b v1.2.0\nverifying example.com/b@v1.2.0/go.mod: checksum mismatch\n\tdownloaded: h1:x=\n\tgo.sum:     h1:y=\n\nSECURITY ERROR\n",
			want: "go.mod:7:2: the checksum of example.com/b@v1.2.0 is h1:x=, want h1:y=: the module may have been modified; if go.sum is wrong, remove the line and run: builder tidy FILE",
		},
		"Off": {
			pkg: "example.com/a/sub", place: "handler/handler.go:6:2",
			text: "module lookup disabled by GOPROXY=off",
			want: "go.mod:6:2: cannot fetch example.com/a@v1.0.0: module lookup disabled by GOPROXY=off" + administrator,
		},
		"Malformed": {
			text: "malformed go.sum:\ngo.sum:3: wrong number of fields 2",
			want: "go.sum:3:1: malformed go.sum: wrong number of fields 2",
		},
		"Unprovided": {
			pkg: "example.com/none", place: "handler/handler.go:6:2",
			text: "no required module provides package example.com/none; to add it:\n\tgo get example.com/none",
			want: "handler.go:6:2: no module in go.mod contains the package example.com/none; add it with: builder tidy FILE",
		},
		"Standard": {
			pkg: "net/httpx", place: "handler/handler.go:6:2",
			text: "package net/httpx is not in std",
			want: "handler.go:6:2: package net/httpx is not in std",
		},
		"SumOfAnother": {
			pkg: "example.com/other/sub", place: "runtime/serve.go:6:2",
			text:   "missing go.sum entry for module providing package example.com/other/sub (imported by goless.io/runtime); to add:\n\tgo get goless.io/runtime@v0.0.0",
			want:   "go.mod:1:1: go.sum has no checksum of example.com/other/sub; add it with: builder tidy FILE",
			remedy: CompletePackages,
		},
		"SumInGraph": {
			text:   "go: example.com/b@v1.2.0 requires\n\texample.com/c@v0.1.0: missing go.sum entry for go.mod file; to add it:\n\tgo mod download example.com/c",
			want:   "go.mod:7:2: go.sum has no checksum of example.com/c@v0.1.0; add it with: builder tidy FILE",
			remedy: CompleteGraph,
		},
		"Incomplete": {
			text:   "go: updates to go.mod needed, disabled by -mod=readonly; to update it:\n\tgo mod tidy",
			want:   "go.mod:1:1: go.mod does not list all modules that the source needs; update it with: builder tidy FILE",
			remedy: CompleteGraph,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f, ok := ModuleFault(p, p.Overrides, c.pkg, c.place, c.text)
			if !ok {
				t.Fatal("it is not about modules")
			}
			if diff := cmp.Diff(c.want, f.Diagnostic.String()); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if f.Remedy != c.remedy || f.Fetch != c.fetch {
				t.Errorf("remedy %d and fetch %t, want %d and %t", f.Remedy, f.Fetch, c.remedy, c.fetch)
			}
		})
	}
	for _, text := range []string{
		"nothing is said of modules",
		"go: open $GOMODCACHE/example.com/a@v1.0.0/a.go: permission denied",
		"go: open go.mod: permission denied",
	} {
		if f, ok := ModuleFault(p, p.Overrides, "", "", text); ok {
			t.Errorf("%q is %+v", text, f)
		}
	}
}
