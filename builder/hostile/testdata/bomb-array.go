// want: 12 BuildOutOfMemory

package p

import "net/http"

var x = [1 << 30]byte{1<<30 - 1: 1}

func Handler(w http.ResponseWriter, r *http.Request) { w.Write(x[:]) }
