// want: 0 Built

//go:debug httpmuxgo121=1

package p

import "net/http"

func Handler(w http.ResponseWriter, r *http.Request) {}
