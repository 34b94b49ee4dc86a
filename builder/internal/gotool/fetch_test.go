package gotool

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"goless.io/builder/handler"
	"goless.io/builder/internal/modproxy"
	"goless.io/builder/internal/program"
)

// fetchTimeout is for machines that are busy and have to compile everything.
const fetchTimeout = 5 * time.Minute

// write writes the program around a source that is right.
func write(t *testing.T, source string) *program.Program {
	t.Helper()
	h, err := handler.Parse(handler.Filename, []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	p, err := program.Write(t.TempDir(), h)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// machine returns the toolchain of the machine, with modules from proxy alone, and
// confined like that of an image: its module cache only holds what the runtime
// needs.
func machine(t *testing.T, proxy string) *Toolchain {
	t.Helper()
	toolchain, err := Find(t.Context(), append(os.Environ(), "KO_DATA_PATH="))
	if err != nil {
		t.Fatal(err)
	}
	if toolchain.Modules, err = runtimeModules(); err != nil {
		t.Fatal(err)
	}
	toolchain.Network = []string{"GOPROXY=" + proxy, "GOSUMDB=off"}
	toolchain.Sealed = true
	toolchain.Slow = "the cache of the machine may be cold" // so it can be written
	return toolchain
}

// runtimeModules returns a module cache of what the runtime needs, as an image
// has it: without what the modules were unpacked from. TestMain removes it.
var runtimeModules = sync.OnceValues(func() (string, error) {
	ctx := context.Background()
	machine, err := Find(ctx, append(os.Environ(), "KO_DATA_PATH="))
	if err != nil {
		return "", err
	}
	h, err := handler.Parse(handler.Filename, []byte(hello))
	if err != nil {
		return "", err
	}
	dir := filepath.Join(scratch, "program")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	p, err := program.Write(dir, h)
	if err != nil {
		return "", err
	}
	downloaded := "GOPROXY=file://" + machine.Modules + "/cache/download," + lookup(machine.Network, "GOPROXY")
	machine.Modules = filepath.Join(scratch, "mod")
	machine.Network = append(machine.Network, "GOFLAGS=-modcacherw", downloaded)
	if err := machine.FetchGraph(ctx, p.Dir); err != nil {
		return "", err
	}
	if _, err := machine.Inputs(ctx, p.Dir); err != nil {
		return "", err
	}
	return machine.Modules, filepath.WalkDir(machine.Modules, func(path string, _ os.DirEntry, err error) error {
		if extension := filepath.Ext(path); extension == ".zip" || extension == ".lock" || extension == ".info" {
			return os.Remove(path)
		}
		return err
	})
})

const hello = "package handlers\n\nimport \"net/http\"\n\nfunc Handler(w http.ResponseWriter, r *http.Request) {}\n"

// serveModules starts a proxy that has the modules that tests pin.
func serveModules(t *testing.T) (*modproxy.Proxy, string) {
	t.Helper()
	p := new(modproxy.Proxy)
	for _, dir := range []string{"current", "older"} {
		if err := p.AddPinned(t.Context(), filepath.Join("..", "modproxy", "testdata", dir)); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	return p, server.URL
}

// pinned returns the source whose handler uses modules, with the go.mod and go.sum
// that a test module of the proxy has.
func pinned(t *testing.T, dir, source string) string {
	t.Helper()
	archive := &txtar.Archive{Files: []txtar.File{{Name: "handler.go", Data: []byte(source)}}}
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join("..", "modproxy", "testdata", dir, name))
		if err != nil {
			t.Fatal(err)
		}
		archive.Files = append(archive.Files, txtar.File{Name: name, Data: data})
	}
	return string(txtar.Format(archive))
}

// fetchAndBuild returns the path of the binary.
func fetchAndBuild(t *testing.T, toolchain *Toolchain, p *program.Program, trace io.Writer) (string, error) {
	t.Helper()
	if err := toolchain.Fetch(t.Context(), Fetch{Program: p, Timeout: fetchTimeout, Trace: trace}); err != nil {
		return "", err
	}
	output := filepath.Join(t.TempDir(), "server")
	_, err := toolchain.Build(t.Context(), Build{Program: p, Output: output, Timeout: fetchTimeout, Trace: trace})
	return output, err
}

// libraries uses what people use.
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
	proxy, url := serveModules(t)
	toolchain := machine(t, url)
	if _, err := fetchAndBuild(t, toolchain, write(t, hello), nil); err != nil {
		t.Fatal(err)
	}
	p := write(t, pinned(t, "current", libraries))
	var trace bytes.Buffer
	binary, err := fetchAndBuild(t, toolchain, p, &trace)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := call(t, binary, "/goless.io"), "1.234.567\n"; !strings.HasPrefix(got, want) || !strings.Contains(got, "token: ") {
		t.Errorf("the function answers %q, want %q and a token", got, want)
	}
	for _, path := range proxy.Requests() {
		if strings.HasSuffix(path, ".zip") && strings.Contains(path, "client_golang") {
			t.Errorf("%s was fetched, the image has it", path)
		}
	}
	if strings.Contains(trace.String(), "-p go.uber.org/zap ") {
		t.Error("the runtime's modules were compiled anew")
	}
	if _, err := os.Stat(filepath.Join(toolchain.Modules, "github.com", "go-chi")); err == nil {
		t.Error("something was written to the module cache of the image")
	}
}

// call starts the binary, and returns what it answers.
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
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // it was killed
	}()
	response, err := http.Get("http://" + address + path) // the listener is there already
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
