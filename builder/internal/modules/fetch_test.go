package modules

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"goless.io/builder/handler"
	"goless.io/builder/internal/buildtest"
	"goless.io/builder/internal/compile"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/toolchain"
)

// machine returns the installed toolchain, with modules only from proxy, and confined like that of
// an image: its module cache contains only what the runtime needs.
func machine(t *testing.T, proxy string) *toolchain.Toolchain {
	t.Helper()
	cache, err := runtimeModules()
	if err != nil {
		t.Fatal(err)
	}
	tools := buildtest.Machine(t)
	tools.Modules = cache
	tools.Network = []string{"GOPROXY=" + proxy, "GOSUMDB=off"}
	tools.Sealed = true
	return tools
}

// runtimeModules returns a module cache with what the runtime needs, as in an image: without the
// archives of modules. It also compiles the runtime into the build cache of the machine, because
// sealed toolchains only read that. TestMain removes the directory.
var runtimeModules = sync.OnceValues(func() (string, error) {
	ctx := context.Background()
	machine, err := toolchain.Find(ctx, append(os.Environ(), "KO_DATA_PATH="))
	if err != nil {
		return "", err
	}
	src, err := handler.Parse(handler.Filename, []byte(buildtest.Hello))
	if err != nil {
		return "", err
	}
	dir := filepath.Join(scratch, "program")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	p, err := program.Write(dir, src)
	if err != nil {
		return "", err
	}
	served, err := buildtest.Modules()
	if err != nil {
		return "", err
	}
	machine.Modules = filepath.Join(scratch, "mod")
	machine.Network = []string{"GOPROXY=file://" + served, "GOSUMDB=off", "GOFLAGS=-modcacherw"}
	if err := machine.FetchGraph(ctx, p.Dir); err != nil {
		return "", err
	}
	if _, err := machine.Inputs(ctx, p.Dir); err != nil {
		return "", err
	}
	if _, err := compile.Build(ctx, machine, compile.Options{Program: p, Output: filepath.Join(scratch, "server"), Timeout: buildtest.Timeout}); err != nil {
		return "", err
	}
	return machine.Modules, filepath.WalkDir(machine.Modules, func(path string, _ os.DirEntry, err error) error {
		if extension := filepath.Ext(path); extension == ".zip" || extension == ".lock" || extension == ".info" {
			return os.Remove(path)
		}
		return err
	})
})

// fetchAndBuild returns the path of the binary.
func fetchAndBuild(t *testing.T, tools *toolchain.Toolchain, p *program.Program, trace io.Writer) (string, error) {
	t.Helper()
	if err := Fetch(t.Context(), tools, FetchOptions{Program: p, Timeout: buildtest.Timeout, Trace: trace}); err != nil {
		return "", err
	}
	output := filepath.Join(t.TempDir(), "server")
	_, err := compile.Build(t.Context(), tools, compile.Options{Program: p, Output: output, Timeout: buildtest.Timeout, Trace: trace})
	return output, err
}

// libraries uses popular libraries.
const libraries = `package handlers

import (
	"fmt"
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/goccy/go-yaml"
	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

var (
	router = chi.NewRouter()
	calls  = promauto.NewCounter(prometheus.CounterOpts{Name: "calls_total", Help: "Calls."})
)

func init() {
	router.Get("/{name}", func(w http.ResponseWriter, r *http.Request) {
		calls.Inc()
		id := uuid.NewSHA1(uuid.NameSpaceDNS, []byte(chi.URLParam(r, "name")))
		token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": id.String()}).SignedString([]byte("secret"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		out, _ := yaml.Marshal(map[string]any{"token": len(token)})
		message.NewPrinter(language.German).Fprintf(w, "%d\n", 1234567)
		fmt.Fprintf(w, "%s%s", id, out)
	})
}

func Handler(w http.ResponseWriter, r *http.Request) { router.ServeHTTP(w, r) }
`

func TestFetchAndServe(t *testing.T) {
	proxy := serveModules(t)
	tools := machine(t, proxy.URL)
	if _, err := fetchAndBuild(t, tools, buildtest.Write(t, buildtest.Hello), nil); err != nil {
		t.Fatal(err)
	}
	p := buildtest.Write(t, pinned(t, "current", libraries))
	var trace bytes.Buffer
	binary, err := fetchAndBuild(t, tools, p, &trace)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := call(t, binary, "/goless.io"), "1.234.567\n"; !strings.HasPrefix(got, want) || !strings.Contains(got, "token: ") {
		t.Errorf("the function answers %q, want %q and a token", got, want)
	}
	for _, path := range proxy.archives() {
		if strings.Contains(path, "client_golang") {
			t.Errorf("%s was fetched, the image has it", path)
		}
	}
	if strings.Contains(trace.String(), "-p go.uber.org/zap ") {
		t.Error("the runtime's modules were recompiled")
	}
	if _, err := os.Stat(filepath.Join(tools.Modules, "github.com", "go-chi")); err == nil {
		t.Error("something was written to the module cache of the image")
	}
}

// call starts the binary and returns its response.
func call(t *testing.T, binary, path string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Env = []string{"SERVER_LISTENER=3", "ADMIN_LISTENER=4", "DRAIN_DELAY=0s"}
	var address string
	for range 2 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		file, err := listener.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		address = cmp.Or(address, listener.Addr().String())
		listener.Close()   //nolint:errcheck // the file is what is passed on
		defer file.Close() //nolint:errcheck // likewise
		cmd.ExtraFiles = append(cmd.ExtraFiles, file)
	}
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill() // may have ended
		_ = cmd.Wait()         // killed
	}()
	response, err := http.Get("http://" + address + path) // the listener already exists
	if err != nil {
		t.Fatalf("calling the function: %v\n%s", err, &log)
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
