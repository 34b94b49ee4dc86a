// Package handlers answers HTTP requests.
package handlers

import (
	"fmt"
	"net/http"
)

// Handler serves every request.
func Handler(w http.ResponseWriter, r *http.Request) {
	name := r.FormValue("name")
	if name == "" {
		name = "world"
	}
	fmt.Fprintf(w, "Hello, %s!\n", name)
}
