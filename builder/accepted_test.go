package builder_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestAcceptedBuilds checks that the go command builds sources which the validation accepts and
// that are at the limits of what Go allows.
func TestAcceptedBuilds(t *testing.T) {
	const module = "-- go.mod --\nmodule example.com/hello\n\ngo 1.26\ntoolchain go1.99.0\n"
	const imports = "package p; import \"net/http\"\n"
	// Files for one platform, files that the go command ignores, and unusual names.
	const otherFiles = "-- a_windows.go --\npackage handlers\nfunc Handler() {}\n-- b.go --\n//go:build ignore\n\npackage main\n-- c_test.go --\npackage handlers_test\nno Go\n-- doc.go --\npackage documentation\n" +
		"-- a_amd64.go --\npackage handlers\nfunc f() {}\n-- a_arm64.go --\npackage handlers\nfunc f() {}\n" +
		"-- testdata/a.go --\nno Go\n-- _a.go --\nno Go\n-- .b/c.go --\nno Go\n-- assets/d.c --\nint main;\n-- vendor/a/b.go --\nno Go\n" +
		"-- ü.go --\npackage handlers\n-- 1+1 (2).go --\npackage handlers\n-- a#b.txt --\n"
	cases := map[string]string{
		"Hooks":         imports + "import \"context\"\nfunc Handler(http.ResponseWriter, *http.Request) {}\nfunc Start(context.Context) error { return nil }\nfunc Ready(_ context.Context) (err error) { return nil }\ntype Stop int\n",
		"Constraint":    "//go:build linux && !cgo && go1.21 && !ignore\n\n" + header,
		"OldConstraint": "// +build linux,go1.9 darwin\n\n" + header,
		"Embed":         header + "-- a.go --\npackage handlers\nimport \"embed\"\n//go:embed x all:y \"with space.txt\" `z/*.css`\n//go:embed x/[ab].txt all:*\nvar Files embed.FS\n-- x/a.txt --\n-- x/_b --\n-- y/.c --\n-- z/d.css --\n-- with space.txt --\n",
		"Packages":      strings.Replace(header, "import", "import _ \"example.com/hello/internal/a\"; import", 1) + module + "-- internal/a/a.go --\npackage other\n-- cmd/b/main.go --\npackage main\nfunc main() {}\n",
		"NoDot":         strings.Replace(header, "import", "import _ \"hello/a\"; import", 1) + "-- go.mod --\nmodule hello\n-- a/a.go --\npackage a\n",
		"OldGo":         header + "-- go.mod --\nmodule example.com/hello/v2\n\ngo 1.13\n",
		"NoGoLine":      header + "-- go.mod --\nmodule example.com/hello.go\n",
		"CRLF":          strings.ReplaceAll(header+module, "\n", "\r\n"),
		"ByteOrderMark": "\uFEFF" + header,
		"Blanks":        header + "type T int\nfunc (T) _() {}\nfunc (T) _() {}\nfunc _() {}\nvar _, _ = 1, 2\nfunc init() { f() }\nfunc init() {}\n" + otherFiles,
	}
	b := newBuilder(t)
	for name, src := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := b.Build(t.Context(), []byte(src), filepath.Join(t.TempDir(), "server")); err != nil {
				t.Error(err)
			}
		})
	}
}
