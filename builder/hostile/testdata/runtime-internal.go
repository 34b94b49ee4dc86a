// want: 13 InvalidSource
// says: handler.go:7:

package p

import (
	_ "goless.io/runtime/internal/exchange"
	"net/http"
)

func Handler(w http.ResponseWriter, r *http.Request) {}
