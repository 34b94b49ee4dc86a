package builder_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"goless.io/builder"
	"goless.io/builder/internal/buildtest"
	"goless.io/builder/internal/depcache"
	"goless.io/builder/internal/toolchain"
)

// requiring returns a source that requires modules, with a marker in its handler.
func requiring(t *testing.T, marker string) string {
	t.Helper()
	dir := filepath.Join("..", "test", "e2e", "testdata", "dependencies")
	var a txtar.Archive
	for _, name := range []string{"handler.go", "go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if name == "handler.go" {
			data = append(data, "\n// Marker tells sources apart.\nvar Marker = "+`"`+marker+`"`+"\n"...)
		}
		a.Files = append(a.Files, txtar.File{Name: name, Data: data})
	}
	return string(txtar.Format(&a))
}

// imageBuild builds with the contents of the image, and with the modules of a proxy that a test can
// empty.
type imageBuild struct {
	tools *toolchain.Toolchain
	proxy string
}

func newImageBuild(t *testing.T) *imageBuild {
	t.Helper()
	buildtest.RequireStatic(t)
	served, err := buildtest.Modules()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	proxy := filepath.Join(t.TempDir(), "proxy")
	if err := os.Symlink(served, proxy); err != nil {
		t.Fatal(err)
	}
	tools, err := toolchain.Find(t.Context(), []string{"KO_DATA_PATH=" + buildtest.Image(t), "GOPROXY=file://" + proxy, "GOSUMDB=off"})
	if err != nil {
		t.Fatal(err)
	}
	return &imageBuild{tools, proxy}
}

// emptyProxy removes all modules from the proxy.
func (i *imageBuild) emptyProxy(t *testing.T) {
	t.Helper()
	if err := os.Remove(i.proxy); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(i.proxy, 0o755); err != nil {
		t.Fatal(err)
	}
}

// build returns the binary and the executed commands. The error is that of Build.
func (i *imageBuild) build(t *testing.T, b builder.Builder, marker string) (binary []byte, commands string, err error) {
	t.Helper()
	var trace bytes.Buffer
	b.Toolchain, b.Timeout, b.Trace = i.tools, buildtest.Timeout, &trace
	output := filepath.Join(t.TempDir(), "server")
	started := time.Now()
	if _, err := b.Build(t.Context(), []byte(requiring(t, marker)), output); err != nil {
		return nil, "", err
	}
	t.Logf("the build took %s", time.Since(started))
	if binary, err = os.ReadFile(output); err != nil {
		t.Fatal(err)
	}
	return binary, trace.String(), nil
}

// openStore returns an empty store with room for everything that a test builds.
func openStore(t *testing.T) *depcache.Store {
	t.Helper()
	store, err := depcache.Open(filepath.Join(t.TempDir(), "store"), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// TestDependenciesAreKept checks that the second build in a namespace with the same requirements
// fetches nothing, compiles only the author's files, and produces the same bytes as a build without
// a store. Another namespace must not use its dependencies.
func TestDependenciesAreKept(t *testing.T) {
	image := newImageBuild(t)
	store := openStore(t)
	const module = "-p github.com/go-chi/chi/v5 "
	ours := builder.Builder{Dependencies: store, Namespace: "ours"}
	fresh, commands, err := image.build(t, builder.Builder{}, "second")
	if err != nil || !strings.Contains(commands, module) {
		t.Fatalf("without a store: %v\n%s", err, commands)
	}
	if _, commands, err = image.build(t, ours, "first"); err != nil || !strings.Contains(commands, module) {
		t.Fatalf("the first build: %v\n%s", err, commands)
	}
	image.emptyProxy(t)
	kept, commands, err := image.build(t, ours, "second")
	if err != nil {
		t.Fatalf("the second build: %v", err)
	}
	if strings.Contains(commands, module) || !strings.Contains(commands, "-p example.com/dependencies ") {
		t.Errorf("the second build compiles a module, or not the handler:\n%s", commands)
	}
	if strings.Contains(commands, "$WORK") {
		t.Errorf("the go command made the second build:\n%s", commands)
	}
	if !bytes.Equal(kept, fresh) {
		t.Error("the binary of the second build differs from that of a build without kept dependencies")
	}
	if _, _, err := image.build(t, builder.Builder{Dependencies: store, Namespace: "theirs"}, "second"); err == nil {
		t.Error("another namespace has what it could not fetch")
	}
	checkClean(t)
}

// TestLaterBuilds checks that a build with the dependencies of an earlier one has the result of a build
// without a store: the same binary, or any error. If direct is set, it must not need the go command.
func TestLaterBuilds(t *testing.T) {
	image := newImageBuild(t)
	sums, err := os.ReadFile(filepath.Join("..", "test", "e2e", "testdata", "dependencies", "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	module := func(lines string) string { return "-- go.mod --\nmodule example.com/m\n" + lines }
	withChi := func(path string) string {
		return "-- go.mod --\nmodule " + path + "\n\ngo 1.25.0\n\nrequire github.com/go-chi/chi/v5 v5.5.0\n-- go.sum --\n" + string(sums)
	}
	handler := func(imports, body string) string {
		return "-- h/h.go --\npackage h\n\nimport (\n\t\"net/http\"\n" + imports + ")\n\nfunc Handler(w http.ResponseWriter, r *http.Request) {\n" + body + "}\n"
	}
	const (
		text   = "-- internal/text/text.go --\npackage text\n\nimport \"strings\"\n\nvar Text = strings.ToUpper(\"a\")\n"
		router = "-- router/router.go --\npackage router\n\nimport (\n\t\"github.com/go-chi/chi/v5\"\n\n\t\"example.com/m/internal/text\"\n)\n\nvar New = chi.NewRouter\n\nvar Text = text.Text\n" + text
		use    = "\t\"example.com/m/router\"\n"
		serve  = "\trouter.New().ServeHTTP(w, r)\n"
		loop   = "\tvar all []func() int\n\tfor i := 0; i < 3; i++ {\n\t\tall = append(all, func() int { return i })\n\t}\n\tw.WriteHeader(all[0]())\n"
		chi    = "\t\"github.com/go-chi/chi/v5\"\n"
		useChi = "\tchi.NewRouter().ServeHTTP(w, r)\n"
	)
	many := ""
	for i := range 8 {
		many += fmt.Sprintf("-- p%d/p.go --\npackage p\n", i)
	}
	manyImports := regexp.MustCompile(`-- (p\d).*\n.*\n`).ReplaceAllString(many, "\t_ \"example.com/m/$1\"\n")
	for name, c := range map[string]struct {
		first, second string
		direct        bool
	}{
		"Handler":         {withChi("example.com/m") + handler(use, serve) + router, withChi("example.com/m") + handler(use, serve+"\tw.WriteHeader(418)\n") + router, true},
		"StandardLibrary": {withChi("example.com/m") + handler(use, serve) + router, withChi("example.com/m") + handler(use+"\t\"text/template\"\n", serve+"\ttemplate.HTMLEscape(w, nil)\n") + router, true},
		"FewerModules":    {withChi("example.com/m") + handler(use, serve) + router, withChi("example.com/m") + handler("", "") + router, false},
		"Errors":          {module("go 1.26\n") + handler("", ""), module("go 1.26\n") + handler("", "\tvar x int = nil\n\tvar y string = 1\n"), false},
		"NoModules":       {module("go 1.26\n") + handler("\t\"example.com/m/internal/text\"\n", "\tw.Write([]byte(text.Text))\n") + text, module("go 1.26\n") + handler("\t\"example.com/m/internal/text\"\n", "\t_ = text.Text\n") + text, true},
		"OtherGo":         {module("go 1.21\n") + handler("", loop), module("go 1.25\n") + handler("", loop), false},
		"OlderGo":         {module("go 1.21\n") + handler("", ""), module("go 1.21\n") + handler("", "\tfor range 3 {\n\t}\n"), false},
		"NoGo":            {module("") + handler("", loop), module("") + handler("", loop+"\tw.WriteHeader(418)\n"), true},
		"Case": {
			"-- go.mod --\nmodule Text\n\ngo 1.26\n" + handler("\t_ \"Text/Tabwriter\"\n", "") + "-- Tabwriter/t.go --\npackage t\n",
			"-- go.mod --\nmodule Text\n\ngo 1.26\n" + handler("\t_ \"Text/Tabwriter\"\n\t_ \"text/tabwriter\"\n", "") + "-- Tabwriter/t.go --\npackage t\n", false,
		},
		"NestedModule": {withChi("github.com/go-chi") + handler(chi, useChi) + "-- chi/v5/readme.txt --\n", withChi("github.com/go-chi") + handler(chi, useChi+useChi) + "-- chi/v5/readme.txt --\n", true},
		"Ambiguous":    {withChi("github.com/go-chi") + handler(chi, useChi), withChi("github.com/go-chi") + handler(chi, useChi) + "-- chi/v5/chi.go --\npackage chi\n\nimport \"net/http\"\n\nvar NewRouter = http.NewServeMux\n", false},
		"Bridge":       {module("go 1.26\n") + strings.ReplaceAll(handler("", ""), "h/h.go", "internal/h/h.go"), module("go 1.26\n") + strings.ReplaceAll(handler("", "\tw.WriteHeader(418)\n"), "h/h.go", "internal/h/h.go"), true},
		"FileName":     {withChi("go.mod") + handler("\t_ \"go.mod\"\n", "") + "-- r.go --\npackage r\n\nimport _ \"github.com/go-chi/chi/v5\"\n", withChi("go.mod") + handler("", "") + "-- r.go --\npackage r\n\nimport _ \"github.com/go-chi/chi/v5\"\n", false},
		"ManyPackages": {module("go 1.26\n") + handler(manyImports, "") + many, module("go 1.26\n") + handler(manyImports, "\tw.WriteHeader(418)\n") + many, false},
	} {
		t.Run(name, func(t *testing.T) {
			stored := builder.Builder{Toolchain: image.tools, Timeout: buildtest.Timeout, Dependencies: openStore(t), Namespace: "ours"}
			if _, _, err := buildTraced(t, stored, c.first); err != nil {
				t.Fatal(err)
			}
			binary, commands, err := buildTraced(t, stored, c.second)
			if direct := !strings.Contains(commands, "WORK="); direct != c.direct {
				t.Errorf("built without the go command: %t, want %t\n%s", direct, c.direct, commands)
			}
			fresh := stored
			fresh.Dependencies = nil
			want, _, wantErr := buildTraced(t, fresh, c.second)
			if (err == nil) != (wantErr == nil) {
				t.Errorf("the error is %v, without a store %v", err, wantErr)
			}
			if !bytes.Equal(binary, want) {
				t.Error("the binary differs from that without a store")
			}
			checkClean(t)
		})
	}
}

// buildTraced returns the binary, the executed commands and the error of a build.
func buildTraced(t *testing.T, b builder.Builder, source string) (binary []byte, commands string, err error) {
	t.Helper()
	var trace bytes.Buffer
	b.Trace = &trace
	output := filepath.Join(t.TempDir(), "server")
	result, err := b.Build(t.Context(), []byte(source), output)
	if err != nil {
		return nil, trace.String(), err
	}
	if result.VetError != nil || result.CacheError != nil {
		t.Error(result.VetError, result.CacheError)
	}
	binary, err = os.ReadFile(output)
	return binary, trace.String(), err
}

// TestDependenciesOfMorePackages checks that a build that reaches more of the author's packages
// fetches their imports. The dependencies of an earlier build with the same imports in all files
// may not contain them.
func TestDependenciesOfMorePackages(t *testing.T) {
	image := newImageBuild(t)
	b := builder.Builder{Toolchain: image.tools, Timeout: buildtest.Timeout, Dependencies: openStore(t), Namespace: "ours"}
	all := txtar.Parse([]byte(requiring(t, "")))
	all.Files = slices.DeleteFunc(all.Files, func(f txtar.File) bool { return f.Name == "handler.go" })
	for name, text := range map[string]string{
		"router/router.go": "package router\n\nimport \"github.com/go-chi/chi/v5\"\n\nvar New = chi.NewRouter\n",
		"unused/unused.go": "package unused\n\nimport \"example.com/dependencies/router\"\n\nvar New = router.New\n",
	} {
		all.Files = append(all.Files, txtar.File{Name: name, Data: []byte(text)})
	}
	for _, imported := range []string{"", "import _ \"example.com/dependencies/router\"\n\n"} {
		handler := "package handlers\n\nimport \"net/http\"\n\n" + imported + "func Handler(w http.ResponseWriter, r *http.Request) {}\n"
		source := txtar.Archive{Files: append([]txtar.File{{Name: "handler.go", Data: []byte(handler)}}, all.Files...)}
		if _, err := b.Build(t.Context(), txtar.Format(&source), filepath.Join(t.TempDir(), "server")); err != nil {
			t.Errorf("with %q: %v", imported, err)
		}
	}
	checkClean(t)
}

// TestDependenciesOfMovedHandler moves the handler to a package that imports a module. The cached
// dependencies of the build before the move do not contain that module.
func TestDependenciesOfMovedHandler(t *testing.T) {
	image := newImageBuild(t)
	b := builder.Builder{Toolchain: image.tools, Timeout: buildtest.Timeout, Dependencies: openStore(t), Namespace: "ours"}
	all := txtar.Parse([]byte(requiring(t, "")))
	all.Files = slices.DeleteFunc(all.Files, func(f txtar.File) bool { return f.Name == "handler.go" })
	for _, names := range [][2]string{{"Handler", "Former"}, {"Former", "Handler"}} {
		plain := "package plain\n\nimport \"net/http\"\n\nfunc " + names[0] + "(w http.ResponseWriter, r *http.Request) {}\n"
		router := "package router\n\nimport (\n\t\"net/http\"\n\n\t\"github.com/go-chi/chi/v5\"\n)\n\nvar New = chi.NewRouter\n\n" +
			"func " + names[1] + "(w http.ResponseWriter, r *http.Request) {}\n"
		source := txtar.Archive{Files: append([]txtar.File{{Name: "plain/plain.go", Data: []byte(plain)}, {Name: "router/router.go", Data: []byte(router)}}, all.Files...)}
		if _, err := b.Build(t.Context(), txtar.Format(&source), filepath.Join(t.TempDir(), "server")); err != nil {
			t.Errorf("with the handler in %v: %v", names, err)
		}
	}
	checkClean(t)
}

// TestDependenciesAreNotKept checks that a build succeeds although its dependencies cannot be
// cached.
func TestDependenciesAreNotKept(t *testing.T) {
	image := newImageBuild(t)
	dir := filepath.Join(t.TempDir(), "store")
	store, err := depcache.Open(dir, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	b := builder.Builder{Toolchain: image.tools, Timeout: buildtest.Timeout, Dependencies: store}
	result, err := b.Build(t.Context(), []byte(requiring(t, "")), filepath.Join(t.TempDir(), "server"))
	if err != nil {
		t.Fatal(err)
	}
	if result.CacheError == nil {
		t.Error("it does not say that nothing is kept")
	}
}
