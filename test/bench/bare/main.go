// Command bare is the baseline of the runtime: a server of net/http with defaults and the
// handler of the measured Function. It serves on the listener that it inherits as file
// descriptor 3.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
)

func main() {
	listener, err := net.FileListener(os.NewFile(3, "listener"))
	if err == nil {
		err = http.Serve(listener, http.HandlerFunc(handler)) //nolint:gosec // bare, as the name says
	}
	fmt.Fprintln(os.Stderr, "bare:", err)
	os.Exit(1)
}

func handler(w http.ResponseWriter, _ *http.Request) {
	w.Write([]byte("hello")) //nolint:errcheck // as in the Function
}
