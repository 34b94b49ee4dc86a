package cli

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// await FILE REGEXP waits until the file matches.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await file regexp")
	}
	pattern, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		data, err := os.ReadFile(ts.MkAbs(args[0]))
		if err == nil && pattern.Match(data) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s does not match %q after %s:\n%s", args[0], args[1], patience, data)
		}
	}
}

// pod FILE... serves requests like a function until the script ends, and replaces @IP@ and
// @PORT@ in the files by its address.
func servePod(ts *testscript.TestScript, _ bool, args []string) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(echo))
	start(ts, server, args)
	server.Start()
}

// echo responds with the request. The path contains the status.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	switch path.Base(r.URL.Path) {
	case "broken":
		w.WriteHeader(http.StatusInternalServerError)
	case "redirect":
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(http.StatusFound)
	}
	fmt.Fprintf(w, "%s %s\n%s %s %s\n%s\n", r.Method, r.URL, r.Header.Get("Content-Type"), r.Header.Get("Ce-Type"), r.Header.Get("X-Own"), body)
}

// kubelet FILE... serves the logs of pods like a kubelet, and puts its address and port into
// the files. Followed logs do not end.
func serveKubelet(ts *testscript.TestScript, _ bool, args []string) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "{\"msg\":\"%s\"}\n", strings.TrimPrefix(r.URL.Path, "/containerLogs/"))
		if r.FormValue("follow") == "true" {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	start(ts, server, args)
	server.StartTLS()
}

// start starts a server at an address that an API server may use for pods, which loopback
// addresses are not.
func start(ts *testscript.TestScript, server *httptest.Server, files []string) {
	addresses, err := net.InterfaceAddrs()
	ts.Check(err)
	for _, address := range addresses {
		network, ok := address.(*net.IPNet)
		if !ok || !network.IP.IsGlobalUnicast() {
			continue
		}
		listener, err := net.Listen("tcp", net.JoinHostPort(network.IP.String(), "0"))
		ts.Check(err)
		ts.Check(server.Listener.Close())
		server.Listener = listener
		ts.Defer(server.Close)
		ip, port, err := net.SplitHostPort(listener.Addr().String())
		ts.Check(err)
		for _, file := range files {
			text := strings.NewReplacer("@IP@", ip, "@PORT@", port).Replace(ts.ReadFile(file))
			ts.Check(os.WriteFile(ts.MkAbs(file), []byte(text), 0o644))
		}
		return
	}
	ts.Fatalf("this machine has no address but that of the loopback interface")
}
