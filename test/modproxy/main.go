// Command modproxy serves the Go modules that the tests' functions require, from
// inside the cluster: no test depends on a network. What it serves are the files
// of a module cache, which make modules puts into its image. The builder's tests
// read the same files without it.
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
