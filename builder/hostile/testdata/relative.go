// want: 13 InvalidSource
// says: handler.go:7:

package p

import (
	_ "../runtime"
	"net/http"
)

func Handler(w http.ResponseWriter, r *http.Request) {}
