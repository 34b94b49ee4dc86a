package handler_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"goless.io/builder/handler"
)

// vendoring is a source that requires example.com/x v1.0.0 and contains it in vendor.
const vendoring = hello + `-- go.mod --
module example.com/hello

go 1.26

require example.com/x v1.0.0
-- vendor/example.com/x/sub/x.go --
package x
`

func TestParseVendored(t *testing.T) {
	const (
		x      = "# example.com/x v1.0.0\n## explicit; go 1.18\nexample.com/x/sub\n"
		update = "update vendor with: go mod vendor"
	)
	many := x
	for i := range handler.MaxFiles {
		many += fmt.Sprintf("# example.com/z%d v1.0.0\n", i)
	}
	directories := ""
	for i := range 20 {
		directories += fmt.Sprintf("# example.com/z%02d%s v1.0.0\n", i, strings.Repeat("/z", 70))
	}
	replaced := strings.Replace(vendoring, "v1.0.0\n", "v1.0.0\nreplace example.com/x => example.com/y v1.5.0\n", 1)
	cases := map[string]struct{ source, index, want string }{
		"Right":          {vendoring, x, ""},
		"Indirect":       {vendoring, x + "# example.com/z/v2 v2.0.1\n## go 1.27.4\nexample.com/z/v2\n# gopkg.in/yaml.v3 v3.0.1\n# old.example.com v2.0.0+incompatible\n", ""},
		"Workspace":      {vendoring, "## workspace\n" + x, ""},
		"Replaced":       {replaced, "# example.com/x v1.0.0 => example.com/y v1.5.0\n## explicit\n# example.com/x => example.com/y v1.5.0\n", ""},
		"Old":            {strings.Replace(vendoring, "go 1.26", "go 1.13", 1), "# example.com/x v1.0.0\nexample.com/x/sub\n", ""},
		"Runtime":        {vendoring, x + "# goless.io/runtime v0.0.0\n## explicit\n", "4:1: cannot vendor goless.io/runtime: it is part of the generated program; remove it from vendor"},
		"Itself":         {vendoring, x + "# example.com/hello v1.0.0\n", "4:1: cannot vendor example.com/hello: it is the module of the function; " + update},
		"Up":             {vendoring, x + "# ../.. v1.0.0\n", `4:1: ../.. v1.0.0 is not a module: malformed module path "../..": invalid path element ".."; ` + update},
		"UpWithin":       {vendoring, x + "# example.com/../../.. v1.0.0\n", `4:1: example.com/../../.. v1.0.0 is not a module: malformed module path "example.com/../../..": invalid path element ".."; ` + update},
		"UpQuoted":       {vendoring, x + "# `../..` v1.0.0\n", "4:1: `../..` v1.0.0 is not a module: malformed module path \"`../..`\": trailing dot in path element; " + update},
		"Root":           {vendoring, x + "# / v1.0.0\n", `4:1: / v1.0.0 is not a module: malformed module path "/": trailing slash; ` + update},
		"Standard":       {vendoring, x + "# net/http v1.0.0\n", `4:1: net/http v1.0.0 is not a module: malformed module path "net/http": missing dot in first path element; ` + update},
		"Branch":         {vendoring, x + "# example.com/z main\n", "4:1: example.com/z main is not a module: version \"main\" invalid: not a semantic version; " + update},
		"Major":          {vendoring, x + "# example.com/z v2.0.0\n", "4:1: example.com/z v2.0.0 is not a module: version \"v2.0.0\" invalid: should be v0 or v1, not v2; " + update},
		"NoVersion":      {vendoring, x + "# example.com/z\n", "4:1: this is neither a module with a version nor a package; " + update},
		"Words":          {vendoring, x + "# example.com/z v1.0.0 and more\n", "4:1: this is neither a module with a version nor a package; " + update},
		"Twice":          {vendoring, x + x, "4:1: example.com/x is listed twice; " + update},
		"OtherVersion":   {vendoring, strings.Replace(x, "v1.0.0", "v1.1.0", 1), "1:1: example.com/x is vendored in version v1.1.0, but go.mod requires v1.0.0; " + update},
		"NotRequired":    {vendoring, x + "# example.com/z v1.0.0\n## explicit\n", "4:1: go.mod does not require example.com/z; " + update},
		"Local":          {vendoring, strings.Replace(x, "v1.0.0", "v1.0.0 => ../x", 1), "1:1: the replacement of example.com/x differs from go.mod; " + update},
		"NotReplaced":    {replaced, x, "1:1: the replacement of example.com/x differs from go.mod; " + update},
		"File":           {vendoring + "-- vendor/example.com/z --\n", x + "# example.com/z v1.0.0\n", "vendor/example.com/z:1:1: vendor/example.com/z is a file, but a vendored module needs a directory of this name; rename it"},
		"FileAbove":      {vendoring + "-- vendor/z.example --\n", x + "# z.example/z v1.0.0\n# z.example/y v1.0.0\n", "vendor/z.example:1:1: vendor/z.example is a file, but a vendored module needs a directory of this name; rename it"},
		"GoModDirectory": {vendoring + "-- vendor/example.com/x/go.mod/a --\n", x, "vendor/example.com/x/go.mod/a:1:1: vendor/example.com/x/go.mod is a file of the generated program and cannot be a directory; rename it"},
		"GoModModule":    {vendoring, x + "# example.com/x/go.mod/z v1.0.0\n", "4:1: vendor/example.com/x/go.mod is a file of the generated program, so example.com/x/go.mod/z cannot be below it; vendor another module"},
		"LongElement":    {vendoring, x + "# example.com/" + strings.Repeat("z", 256) + " v1.0.0\n", "4:1: cannot vendor this module: its path and version have more than 225 bytes; use a shorter path"},
		"LongVersion":    {vendoring, x + "# example.com/z v1.0.0-" + strings.Repeat("z", 256) + "\n", "4:1: cannot vendor this module: its path and version have more than 225 bytes; use a shorter path"},
		"Deep":           {vendoring, x + "# example.com" + strings.Repeat("/z", 100000) + " v1.0.0\n", "4:1: cannot vendor this module: its path and version have more than 225 bytes; use a shorter path"},
		"Directories":    {vendoring, x + directories, "18:1: the modules in vendor have more than 1000 directories; use fewer"},
		"NewerGo":        {vendoring, strings.Replace(x, "go 1.18", "go 1.99", 1), "1:1: example.com/x needs go 1.99, newer than the Go version that compiles functions, go1.27.4; require an older version of it"},
		"NoGo":           {vendoring, strings.Replace(x, "go 1.18", "go 1.18 (", 1), "1:1: go 1.18 ( is not a Go version; " + update},
		"TooMany":        {vendoring, many, "1003:1: the archive has 1001 modules in vendor, at most 1000 are allowed"},
		"SeveralMissing": {strings.Replace(vendoring, "require example.com/x v1.0.0", "require (\n\texample.com/x v1.0.0\n\texample.com/z v1.0.0\n)", 1), "", "go.mod:6:2: vendor/modules.txt does not list example.com/x@v1.0.0 as explicit; " + update + "\ngo.mod:7:2: vendor/modules.txt does not list example.com/z@v1.0.0 as explicit; " + update},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := handler.Parse(handler.Filename, []byte(c.source+"-- vendor/modules.txt --\n"+c.index))
			got := ""
			if err != nil {
				got = strings.ReplaceAll(err.Error(), handler.VendorIndex+":", "")
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("Parse: -want +got\n%s", diff)
			}
		})
	}
}

func TestParseObjects(t *testing.T) {
	const index = "-- vendor/modules.txt --\n# example.com/x v1.0.0\n## explicit\n"
	cannot := func(name string) string {
		return "vendor/example.com/x/" + name + ":1:1: cannot link " + name + ": functions consist of Go and Go assembly only; vendor a module without it"
	}
	for name, want := range map[string]string{"x.syso": cannot("x.syso"), "x_arm64.syso": cannot("x_arm64.syso"), "x_windows.syso": "", "x_s390x.syso": ""} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if _, err := handler.Parse(handler.Filename, []byte(vendoring+index+"-- vendor/example.com/x/"+name+" --\nx\n")); err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("Parse: %s, want %s", got, want)
			}
		})
	}
}
