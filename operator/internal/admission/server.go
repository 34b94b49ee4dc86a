package admission

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/semaphore"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"goless.io/builder/connlimit"
	"goless.io/operator/internal/metrics"
)

const (
	// pathPrefix begins the path to which the API server sends its requests. The rest of the path is
	// secret.
	pathPrefix = "/functions/"

	// metricsPath stands for that path in metrics.
	metricsPath = "/functions"

	// maxBody is the most bytes that the body of a request may have. It has the Function as it was
	// and as it shall be, of 1.5 MiB each in the API server, and more in JSON.
	maxBody = 7 << 20

	// maxConns is the most connections that the webhook has. Each takes up to 60 KiB of memory,
	// whoever has opened it.
	maxConns = 1024

	// maxBuffered is the most bytes that the bodies of all requests may have together. Package validation
	// bounds how many sources are parsed at the same time.
	maxBuffered = 4 * maxBody

	// maxWait is how long a request may wait until others have left room for it, and how long
	// the API server may then take to send it. The API server gives up after three seconds in
	// all, and stores the Function then.
	maxWait = 1500 * time.Millisecond
)

// newServer returns the server of the webhook. It is not the webhook.Server of
// controller-runtime, because that one has no limits for callers that are not the API
// server: it waits 32 seconds for a request to begin and for ever for its body, and at its
// end it waits for connections for a minute, longer than the pod has.
func newServer(o Options, handler http.Handler, keeper *keeper) *manager.Server {
	busy := func() { o.Metrics.Judged(metrics.Unjudged) }
	return &manager.Server{
		Name: "webhook",
		Server: &http.Server{
			Handler:           onlyKnown(keeper.known, bounded(handler, busy)),
			ReadHeaderTimeout: 5 * time.Second,
			ReadTimeout:       10 * time.Second,
			WriteTimeout:      30 * time.Second,
			// A connection takes some 30 KiB, and callers that are not the API server may
			// open many.
			IdleTimeout:    10 * time.Second,
			MaxHeaderBytes: 16 << 10,
			// Callers that hang up, or come before there is a certificate, are no errors.
			ErrorLog: slog.NewLogLogger(logr.ToSlogHandler(keeper.log.V(1)), slog.LevelInfo),
		},
		Listener: tls.NewListener(connlimit.Listen(o.Listener, maxConns), &tls.Config{
			MinVersion:     tls.VersionTLS13,
			NextProtos:     []string{"h2", "http/1.1"},
			GetCertificate: keeper.certificate,
		}),
		// A leader gives its lease back only after this.
		ShutdownTimeout: new(time.Second),
	}
}

// onlyKnown turns away callers that do not know the path, and so cannot be the API server. It does
// not read what they send, and closes their connections.
func onlyKnown(known func(path string) bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || !known(r.URL.Path) {
			w.Header().Set("Connection", "close")
			// Otherwise net/http would wait for the rest of the request.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now())
			http.NotFound(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// bounded limits the memory that the bodies of all requests take together, and how long a slow caller
// may hold some of it. It calls busy for each request that is not validated because of that.
func bounded(next http.Handler, busy func()) http.Handler {
	buffered := semaphore.NewWeighted(maxBuffered)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength < 0 || r.ContentLength > maxBody {
			http.Error(w, "a request must tell its length, and have at most 7 MiB", http.StatusRequestEntityTooLarge)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), maxWait)
		defer cancel()
		if err := buffered.Acquire(ctx, r.ContentLength); err != nil {
			busy()
			http.Error(w, "too many Functions are applied at the same time", http.StatusServiceUnavailable)
			return
		}
		defer buffered.Release(r.ContentLength)
		body := make([]byte, r.ContentLength)
		err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(maxWait))
		if _, readErr := io.ReadFull(r.Body, body); errors.Join(err, readErr) != nil {
			busy()
			http.Error(w, "the request did not arrive in time", http.StatusRequestTimeout)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}
