// want: 10 CompileFailed
// says: handler.go:10:6: missing function body

package p

import "net/http"

func Handler(w http.ResponseWriter, r *http.Request) {}

func f()
