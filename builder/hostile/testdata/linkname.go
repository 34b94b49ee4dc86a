// want: 13 InvalidSource
// says: handler.go:11:1

package p

import (
	"net/http"
	_ "unsafe"
)

//go:linkname sysAlloc runtime.sysAlloc
func sysAlloc(n uintptr)

func Handler(w http.ResponseWriter, r *http.Request) {}
