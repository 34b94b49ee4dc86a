package runtime_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"

	"goless.io/runtime"
)

// The builder generates such a main for a handler with hooks, which open and close a resource
// that all requests share.
func ExampleFunction() {
	var db *sql.DB
	f := runtime.Function{
		Handler: func(w http.ResponseWriter, r *http.Request) {
			if _, err := db.ExecContext(r.Context(), "INSERT INTO visits DEFAULT VALUES"); err != nil {
				http.Error(w, "try again", http.StatusServiceUnavailable)
			}
		},
		Start: func(context.Context) (err error) { db, err = sql.Open("postgres", "dbname=visits"); return err },
		Ready: func(ctx context.Context) error { return db.PingContext(ctx) },
		Stop:  func(context.Context) error { return db.Close() },
	}
	serve := func() { runtime.Main(f) } // does not return
	_ = serve
}

// The log lines of a request contain its IDs, whichever logger writes them.
func ExampleLogger() {
	handler := func(_ http.ResponseWriter, r *http.Request) {
		runtime.Logger(r.Context()).Info("zap", zap.Int("order", 66))
		slog.InfoContext(r.Context(), "log/slog", "order", 66)
	}
	_ = runtime.Function{Handler: handler}
}

// A stream of events ends when the function shuts down, and so does not delay a rollout.
func ExampleDraining() {
	handler := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		control := http.NewResponseController(w)
		for n := 0; ; n++ {
			_, _ = fmt.Fprintf(w, "data: %d\n\n", n)
			if err := control.Flush(); err != nil {
				return
			}
			select {
			case <-time.After(time.Second):
			case <-runtime.Draining(r.Context()):
				return
			case <-r.Context().Done():
				return
			}
		}
	}
	_ = runtime.Function{Handler: handler}
}

// A test can serve a function in its own process.
func ExampleServe() {
	c := runtime.DefaultConfig()
	c.Log, c.DrainDelay = new(lockedBuffer), 0
	var err1, err2 error
	c.Listener, err1 = net.Listen("tcp", "127.0.0.1:0")
	c.AdminListener, err2 = net.Listen("tcp", "127.0.0.1:0")
	if err := errors.Join(err1, err2); err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error)
	go func() {
		done <- runtime.Serve(ctx, c, runtime.Function{Handler: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "This works!")
		}})
	}()
	resp, err := http.Get("http://" + c.Listener.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	cancel()
	fmt.Println(string(body), err, <-done)
	// Output: This works! <nil> <nil>
}
