// want: 13 InvalidSource
// says: handler.go:4:9

package main

import "net/http"

func Handler(w http.ResponseWriter, r *http.Request) {}
