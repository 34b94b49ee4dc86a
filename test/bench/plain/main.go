// Command plain is the baseline of the benchmarks: the function that they measure, compiled in
// advance into its own image. It responds with the variable ANSWER.
package main

import (
	"net/http"
	"os"

	"goless.io/runtime"
)

func main() {
	answer := []byte(os.Getenv("ANSWER"))
	runtime.Main(runtime.Function{Handler: func(w http.ResponseWriter, _ *http.Request) {
		w.Write(answer) //nolint:errcheck // as in the function that it stands beside
	}})
}
