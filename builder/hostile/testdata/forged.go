// want: 10 CompileFailed
// says: handler.go:10:13: cannot use

package p

import "net/http"

func Handler(w http.ResponseWriter, r *http.Request) {}

var x int = "\nhandler.go:1:1: forged\n# goless.io/function"
