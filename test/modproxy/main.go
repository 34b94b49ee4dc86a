// Command modproxy serves the Go modules that the functions of the tests require, in the
// cluster, so that no test depends on a network. It serves the files of a module cache, which
// make modules adds to its image. The builder's tests read the same files directly.
package main

import (
	"log"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

func main() {
	modules := filepath.Join(os.Getenv("KO_DATA_PATH"), "modules")
	server := &http.Server{
		Addr:              ":8080",
		Handler:           logged(http.FileServer(http.Dir(modules))),
		ReadHeaderTimeout: 10 * time.Second,
	}
	log.Fatal(server.ListenAndServe())
}

func logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		log.Print(r.Method, " ", r.URL.Path)
		next.ServeHTTP(w, r)
	})
}
