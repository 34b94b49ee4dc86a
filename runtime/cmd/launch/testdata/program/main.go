// Command program is a binary for the tests of launch. It serves a description of its process
// on the listeners that it inherits.
package main

import (
	"encoding/json"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
)

func main() {
	go serve("ADMIN_LISTENER")
	serve("SERVER_LISTENER")
}

func serve(variable string) {
	fd, err := strconv.Atoi(os.Getenv(variable))
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.FileListener(os.NewFile(uintptr(fd), variable))
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.Serve(listener, http.HandlerFunc(describe)))
}

func describe(w http.ResponseWriter, _ *http.Request) {
	var files []string
	descriptors, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		log.Fatal(err)
	}
	for _, descriptor := range descriptors {
		if target, err := os.Readlink(descriptor); err == nil { // fails for the descriptor of the directory itself
			files = append(files, target)
		}
	}
	executable, err := os.Readlink("/proc/self/exe")
	if err != nil {
		log.Fatal(err)
	}
	_, err = os.OpenFile("/proc/self/exe", os.O_WRONLY, 0)
	answer := map[string]any{"Args": os.Args, "Environment": os.Environ(), "Executable": executable, "Files": files, "Write": err.Error()}
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		log.Print(err)
	}
}
