// Command plain is the baseline of the benchmarks: the function that they
// measure, but compiled beforehand into an image of its own.
package main

import (
	"net/http"

	"goless.io/runtime"
)

func main() {
	runtime.Main(runtime.Function{Handler: func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte("hello")) //nolint:errcheck // as in the function that it stands beside
	}})
}
