// want: 13 InvalidSource
// says: handler.go:11:1

package p

import (
	"embed"
	"net/http"
)

//go:embed *
var files embed.FS

func Handler(w http.ResponseWriter, r *http.Request) {}
