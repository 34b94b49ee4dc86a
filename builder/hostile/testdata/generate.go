// want: 0 Built

package p

//go:generate touch /tmp/goless-hostile

import "net/http"

func Handler(w http.ResponseWriter, r *http.Request) {}
