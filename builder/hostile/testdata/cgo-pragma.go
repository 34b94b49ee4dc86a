// want: 13 InvalidSource
// says: handler.go:8:1

package p

import "net/http"

//go:cgo_ldflag "-o/tmp/goless-hostile"
func Handler(w http.ResponseWriter, r *http.Request) {}
