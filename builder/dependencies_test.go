package builder_test

import (
	"bytes"
	"os"
	"path/filepath"
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

// TestDirectBuildWithDependencies checks that builds with the dependencies of an earlier one do not
// need the go command, and that their binaries are those of builds without a store. A build that
// reaches fewer modules does not use these dependencies: its binary lists fewer.
func TestDirectBuildWithDependencies(t *testing.T) {
	image := newImageBuild(t)
	stored := builder.Builder{Toolchain: image.tools, Timeout: buildtest.Timeout, Dependencies: openStore(t), Namespace: "ours"}
	all := txtar.Parse([]byte(requiring(t, "")))
	all.Files = slices.DeleteFunc(all.Files, func(f txtar.File) bool { return f.Name == "handler.go" })
	all.Files = append(all.Files,
		txtar.File{Name: "router/router.go", Data: []byte("package router\n\nimport (\n\t\"github.com/go-chi/chi/v5\"\n\n\t\"example.com/dependencies/router/internal/text\"\n)\n\nvar New = chi.NewRouter\n\nvar Text = text.Text\n")},
		txtar.File{Name: "router/internal/text/text.go", Data: []byte("package text\n\nimport \"strings\"\n\nvar Text = strings.ToUpper(\"a\")\n")},
	)
	for i := range all.Files { // the rules of this version apply to the author's files
		all.Files[i].Data = bytes.Replace(all.Files[i].Data, []byte("\ngo 1.26.0\n"), []byte("\ngo 1.25.0\n"), 1)
	}
	build := func(b builder.Builder, imports, body string) (binary []byte, commands string, err error) {
		var trace bytes.Buffer
		b.Trace = &trace
		handler := "package handlers\n\nimport (\n\t\"net/http\"\n" + imports + ")\n\nfunc Handler(w http.ResponseWriter, r *http.Request) {\n" + body + "}\n"
		source := txtar.Archive{Files: append([]txtar.File{{Name: "handler.go", Data: []byte(handler)}}, all.Files...)}
		output := filepath.Join(t.TempDir(), "server")
		if _, err := b.Build(t.Context(), txtar.Format(&source), output); err != nil {
			return nil, trace.String(), err
		}
		binary, err = os.ReadFile(output)
		return binary, trace.String(), err
	}
	const router = "\t\"example.com/dependencies/router\"\n"
	const useRouter = "\trouter.New().ServeHTTP(w, r)\n"
	if _, _, err := build(stored, router, useRouter); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		imports, body string
		direct        bool
	}{
		"Handler":         {router, useRouter + "\tw.WriteHeader(http.StatusTeapot)\n", true},
		"StandardLibrary": {router + "\t\"text/template\"\n", useRouter + "\ttemplate.HTMLEscape(w, nil)\n", true},
		"FewerModules":    {"", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			binary, commands, err := build(stored, c.imports, c.body)
			if err != nil {
				t.Fatal(err)
			}
			if direct := !strings.Contains(commands, "$WORK"); direct != c.direct {
				t.Errorf("built directly: %t, want %t\n%s", direct, c.direct, commands)
			}
			fresh := stored
			fresh.Dependencies = nil
			if want, _, err := build(fresh, c.imports, c.body); err != nil || !bytes.Equal(binary, want) {
				t.Errorf("the binary differs from that of a build without kept dependencies: %v", err)
			}
		})
	}
	const wrong = "\tvar x int = nil\n\t_ = new(1)\n"
	_, _, err := build(stored, router, useRouter+wrong)
	if err == nil || !strings.Contains(err.Error(), "handler.go:10:14: cannot use nil as int value") || !strings.Contains(err.Error(), "handler.go:11:6: new(1) requires go1.26 or later") {
		t.Errorf("with two errors: %v", err)
	}
	if _, _, err = build(stored, router, useRouter+"\t_ = new(1)\n"); err == nil {
		t.Error("built with the language of another module")
	}
	checkClean(t)
}

// TestDirectBuildOfModule checks that the second build of a module that requires no other modules does
// not need the go command.
func TestDirectBuildOfModule(t *testing.T) {
	image := newImageBuild(t)
	const source = "-- go.mod --\nmodule example.com/m\n\ngo 1.26\n-- a.go --\npackage m\n\nimport (\n\t\"net/http\"\n\n\t\"example.com/m/internal/b\"\n)\n\nfunc Handler(w http.ResponseWriter, r *http.Request) { w.Write(b.Text) }\n" +
		"-- internal/b/b.go --\npackage b\n\nvar Text = []byte(\"text\")\n"
	var trace bytes.Buffer
	b := builder.Builder{Toolchain: image.tools, Timeout: buildtest.Timeout, Dependencies: openStore(t), Namespace: "ours", Trace: &trace}
	var binaries [2][]byte
	for i := range binaries {
		trace.Reset()
		output := filepath.Join(t.TempDir(), "server")
		result, err := b.Build(t.Context(), []byte(source), output)
		if err != nil || result.CacheError != nil {
			t.Fatal(err, result)
		}
		if binaries[i], err = os.ReadFile(output); err != nil {
			t.Fatal(err)
		}
		if direct := !strings.Contains(trace.String(), "$WORK"); direct != (i == 1) {
			t.Errorf("build %d without the go command: %t\n%s", i, direct, trace.String())
		}
	}
	if !bytes.Equal(binaries[0], binaries[1]) {
		t.Error("the direct build makes another binary")
	}
	checkClean(t)
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
