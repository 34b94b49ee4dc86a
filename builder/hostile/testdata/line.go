// want: 13 InvalidSource
// says: handler.go:8:1

package p

import "net/http"

//line /etc/passwd:1
var x int = ""

func Handler(w http.ResponseWriter, r *http.Request) {}
