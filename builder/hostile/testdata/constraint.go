// want: 13 InvalidSource

//go:build ignore

package p

import "net/http"

func Handler(w http.ResponseWriter, r *http.Request) {}
