// want: 0 Built

package p

import (
	"net/http"
	"os"
	"os/signal"
	"syscall"
)

func init() {
	signal.Ignore(syscall.SIGTERM)
	if len(os.Args) > 9 {
		os.Exit(3)
	}
}

func Handler(w http.ResponseWriter, r *http.Request) {}
