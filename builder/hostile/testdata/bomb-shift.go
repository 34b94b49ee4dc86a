// want: 10 CompileFailed
// says: handler.go:8:16: invalid operation: invalid shift count

package p

import "net/http"

const x = 1 << 100000

func Handler(w http.ResponseWriter, r *http.Request) {}
