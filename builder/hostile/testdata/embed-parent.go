// want: 13 InvalidSource
// says: handler.go:11:1

package p

import (
	_ "embed"
	"net/http"
)

//go:embed ../../../etc/passwd
var s string

func Handler(w http.ResponseWriter, r *http.Request) {}
