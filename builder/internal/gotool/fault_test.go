package gotool

import (
	"testing"

	"github.com/google/go-cmp/cmp"
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

// TestFaults has what the go command says where a test has no such proxy.
func TestFaults(t *testing.T) {
	p := write(t, demanding)
	cases := map[string]struct {
		pkg, place, text string
		want             string
		remedy           remedy
		fetch            bool
	}{
		"Forbidden": {
			pkg: "example.com/a/sub", place: "handler/handler.go:6:2",
			text:  "example.com/a@v1.0.0: reading https://proxy.example.com/example.com/a/@v/v1.0.0.zip: 403 Forbidden\n\tserver response: This version is not available.",
			want:  "go.mod:6:2: example.com/a@v1.0.0 is refused by the module proxy (403 Forbidden server response: This version is not available.); where it needs credentials, the administrator of the cluster can give them to builds in a netrc file",
			fetch: true,
		},
		"NotFoundInGraph": {
			text: "go: example.com/b@v1.2.0 requires\n\texample.com/c@v0.1.0: reading https://proxy.example.com/example.com/c/@v/v0.1.0.mod: 404 Not Found",
			want: "go.mod:7:2: there is no example.com/c@v0.1.0 at the module proxy (404 Not Found), check its path and version",
		},
		"Unavailable": {
			pkg:   "example.com/a/sub",
			text:  "example.com/a@v1.0.0: reading https://proxy.example.com/example.com/a/@v/v1.0.0.zip: 503 Service Unavailable",
			want:  "go.mod:6:2: example.com/a@v1.0.0 cannot be fetched: the module proxy does not answer as it should (reading https://proxy.example.com/example.com/a/@v/v1.0.0.zip: 503 Service Unavailable)",
			fetch: true,
		},
		"VersionControl": {
			text: "go: example.com/b@v1.2.0: GOVCS disallows using git for public example.com/b; see 'go help vcs'",
			want: "go.mod:7:2: example.com/b@v1.2.0 is not at the module proxy, and builds use no version control: publish it at the proxy, or put it into the source with: go mod vendor, builder pack",
		},
		"TooNew": {
			text: "go: example.com/b@v1.2.0 requires go >= 1.99.0 (running go 1.27.4; GOTOOLCHAIN=local)",
			want: "go.mod:7:2: example.com/b@v1.2.0 requires go >= 1.99.0, which is newer than the toolchain: require an older version",
		},
		"GoTooNew": {
			text: "go: go.mod requires go >= 1.27 (running go 1.26.8; GOTOOLCHAIN=local)",
			want: "go.mod:3:1: go.mod requires go >= 1.27, which is newer than the toolchain: write an older version there, or install a newer Go",
		},
		"OtherPath": {
			text: "go: example.com/b@v1.2.0: parsing go.mod:\n\tmodule declares its path as: example.org/b\n\t        but was required as: example.com/b",
			want: "go.mod:7:2: example.com/b@v1.2.0 has another path (module declares its path as: example.org/b), require it by that",
		},
		"Ambiguous": {
			pkg: "example.com/a/sub", place: "handler/handler.go:6:2",
			text: "ambiguous import: found package example.com/a/sub in multiple modules:\n\texample.com/a v1.0.0 (/x)\n\texample.com/a/sub v1.0.0 (/y)",
			want: "handler.go:6:2: more than one module of go.mod has the package example.com/a/sub, require newer versions of them",
		},
		"Database": {
			pkg: "example.com/a/sub", place: "handler/handler.go:6:2",
			text:  "example.com/a@v1.0.0: verifying module: example.com/a@v1.0.0: reading https://sumdb.example.com/lookup/example.com/a@v1.0.0: 502 Bad Gateway",
			want:  "go.mod:6:2: example.com/a@v1.0.0 cannot be fetched: the module proxy does not answer as it should (reading https://sumdb.example.com/lookup/example.com/a@v1.0.0: 502 Bad Gateway)",
			fetch: true,
		},
		"SumOfAnother": {
			pkg: "example.com/other/sub", place: "runtime/serve.go:6:2",
			text:   "missing go.sum entry for module providing package example.com/other/sub (imported by goless.io/runtime); to add:\n\tgo get goless.io/runtime@v0.0.0",
			want:   "go.mod:1:1: go.sum has no checksum of example.com/other/sub, write it with: builder tidy FILE",
			remedy: completePackages,
		},
		"SumInGraph": {
			text:   "go: example.com/b@v1.2.0 requires\n\texample.com/c@v0.1.0: missing go.sum entry for go.mod file; to add it:\n\tgo mod download example.com/c",
			want:   "go.mod:7:2: go.sum has no checksum of example.com/c@v0.1.0, write it with: builder tidy FILE",
			remedy: completeGraph,
		},
		"Incomplete": {
			text:   "go: updates to go.mod needed, disabled by -mod=readonly; to update it:\n\tgo mod tidy",
			want:   "go.mod:1:1: go.mod does not list all that the source needs, write it anew with: builder tidy FILE",
			remedy: completeGraph,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f, ok := newFault(p, c.pkg, c.place, c.text)
			if !ok {
				t.Fatal("no rule knows the message")
			}
			if diff := cmp.Diff(c.want, f.diagnostic.String()); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if f.remedy != c.remedy || f.fetch != c.fetch {
				t.Errorf("remedy %d and fetch %t, want %d and %t", f.remedy, f.fetch, c.remedy, c.fetch)
			}
		})
	}
	if f, ok := newFault(p, "", "", "no rule has a sign of this"); ok {
		t.Errorf("a message that says nothing of modules is %+v", f)
	}
}
