// want: 13 InvalidSource
// says: handler.go:8:8

package p

// #cgo LDFLAGS: -Wl,--wrap=x
// void f() {}
import "C"
import "net/http"

func Handler(w http.ResponseWriter, r *http.Request) {}
