// want: 13 InvalidSource
// says: handler.go:8:1

package p

import "net/http"

//go:cgo_import_dynamic x x "libc.so.6"
func Handler(w http.ResponseWriter, r *http.Request) {}
