package builder_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"goless.io/builder"
	"goless.io/builder/handler"
)

// TestLayout contains sources whose files conflict with those of the builder, and names that a file
// system does not accept. They must either be built or be reported with a position in the source:
// errors of the builder are retried.
func TestLayout(t *testing.T) {
	const (
		module   = "-- go.mod --\nmodule example.com/m\n\ngo 1.26\n"
		internal = module + "-- internal/f/h.go --\n" + header
		index    = vendored + "-- vendor/example.com/c/c.go --\npackage c\nfunc F() {}\n"
	)
	vendors := func(path string) string {
		return strings.Replace(index, "example.com/c\n--", "example.com/c\n# "+path+" v1.0.0\n--", 1)
	}
	imports := func(path, version string) string {
		return module + "\nrequire " + path + " " + version + "\n-- h.go --\n" + strings.Replace(header, ";", "; import _ \""+path+"\";", 1)
	}
	long, deep := strings.Repeat("a", 300), strings.Repeat("a/", 2500)+"a"
	cases := map[string]struct {
		src, at string // at is empty if the source builds
	}{
		"FileForDirectory":       {vendors("example.com/d") + "-- vendor/example.com/d --\n", "vendor/example.com/d:1:1"},
		"FileForDirectoryAbove":  {vendors("d.example/d") + "-- vendor/d.example --\n", "vendor/d.example:1:1"},
		"DirectoryForGoMod":      {index + "-- vendor/example.com/c/go.mod/a --\n", "vendor/example.com/c/go.mod/a:1:1"},
		"ModuleForGoMod":         {vendors("example.com/c/go.mod"), "vendor/modules.txt:4:1"},
		"LongVendored":           {vendors("example.com/" + long), "vendor/modules.txt:4:1"},
		"DeepVendored":           {vendors("example.com/" + deep), "vendor/modules.txt:4:1"},
		"LongRequired":           {imports("example.com/"+long, "v1.0.0"), "go.mod:5:1"},
		"DeepRequired":           {imports("example.com/"+deep, "v1.0.0"), "go.mod:5:1"},
		"LongVersion":            {imports("example.com/a", "v1.0.0-"+long), "go.mod:5:1"},
		"Capitals":               {imports("example.com/"+strings.Repeat("A", 200), "v1.0.0"), "go.mod:5:1"},
		"LongReplaced":           {imports("example.com/a", "v1.0.0\nreplace example.com/a => example.com/"+long+" v1.0.0"), "go.mod:6:1"},
		"BridgeFile":             {internal + "-- golessbridge --\n", ""},
		"BridgePackage":          {internal + "-- golessbridge/a.go --\npackage a\n", ""},
		"BridgeSame":             {internal + "-- golessbridge/bridge.go --\npackage golessbridge\nvar Handler = 1\n", ""},
		"BridgeDirectory":        {internal + "-- golessbridge/bridge.go/a --\n-- golessbridgex --\n", ""},
		"GoModDirectory":         {"-- handler.go --\n" + header + "-- go.mod/a --\n", ""},
		"GoSumDirectory":         {module + "-- h.go --\n" + header + "-- go.sum/a --\n", ""},
		"IndexDirectory":         {module + "-- h.go --\n" + header + "-- vendor/modules.txt/a --\n", ""},
		"VendorFile":             {module + "-- h.go --\n" + header + "-- vendor --\n", ""},
		"NamesOfTheProgram":      {module + "-- h.go --\n" + header + "-- main.go/a --\n-- runtime --\n-- handler --\n-- server --\n", ""},
		"LongNames":              {module + "-- h.go --\n" + header + "-- " + strings.Repeat("a", 255) + " --\n-- " + strings.Repeat("b/", 127) + "b --\n", ""},
		"FileAndDirectory":       {module + "-- h.go --\n" + header + "-- a --\n-- a/b --\n", "a/b:1:1"},
		"EmbeddedLongName":       {module + "-- h.go --\n" + header + "-- e.go --\npackage handlers\nimport _ \"embed\"\n//go:embed " + long + "\nvar s string\n", "e.go:3:12"},
		"ImportedLongName":       {module + "-- h.go --\n" + strings.Replace(header, ";", "; import _ \"example.com/m/"+long+"\";", 1), "h.go:1:"},
		"DirectoryLikeAGoFile":   {module + "-- h.go --\n" + header + "-- a.go/b --\n", ""},
		"DirectoryLikeAnImport":  {module + "-- h.go --\n" + strings.Replace(header, ";", "; import _ \"example.com/m/a\";", 1) + "-- a/b.go/c --\n", "h.go:1:"},
		"DirectoryLikeAnEmbed":   {module + "-- h.go --\n" + header + "-- e.go --\npackage handlers\nimport _ \"embed\"\n//go:embed a.txt\nvar s string\n-- a.txt/b --\n", ""},
		"VendoredPackageIsAFile": {vendored + "-- vendor/example.com/c --\n", "vendor/example.com/c:1:1"},
	}
	b := newBuilder(t)
	b.Toolchain.Network = []string{"GOPROXY=off"}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := b.Build(t.Context(), []byte(c.src), filepath.Join(t.TempDir(), "server"))
			mistakes, ok := errors.AsType[*handler.Error](err)
			switch {
			case c.at == "" && err != nil:
				t.Errorf("Build: %v, want that it is built", err)
			case c.at != "" && (!ok || !strings.HasPrefix(mistakes.Error(), c.at)):
				t.Errorf("Build: %v, %s, want a diagnostic at %s", err, builder.ReasonOf(err), c.at)
			}
		})
	}
}
