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
	// pathPrefix is the first part of the path to which the API server sends its requests. The rest
	// is secret.
	pathPrefix = "/functions/"

	// metricsPath replaces that path in metrics.
	metricsPath = "/functions"

	// maxBody is the maximum size of a request body in bytes. It contains the old and the new
	// Function, each up to 1.5 MiB in the API server and larger as JSON.
	maxBody = 7 << 20

	// maxConns is the maximum number of connections. Each uses up to 60 KiB of memory.
	maxConns = 1024

	// maxBuffered is the maximum total size of all request bodies in bytes. Package validation
	// limits how many sources are parsed at the same time.
	maxBuffered = 4 * maxBody

	// bodyTimeout is the time for which a request waits for memory, and then the time in which its
	// body must arrive. The API server times out after three seconds in total and then stores the
	// Function.
	bodyTimeout = 1500 * time.Millisecond
)

// newServer returns the server of the webhook. The webhook.Server of controller-runtime has no
// limits for other clients than the API server: it waits 32 seconds for a request header and
// indefinitely for its body, and its shutdown waits a minute for connections, longer than the
// termination grace period of the pod.
func newServer(o Options, handler http.Handler, certs *certificates) *manager.Server {
	busy := func() { o.Metrics.RecordAdmission(metrics.NotValidated) }
	return &manager.Server{
		Name: "webhook",
		Server: &http.Server{
			Handler:           requirePath(certs.isWebhookPath, limitBodies(handler, busy)),
			ReadHeaderTimeout: 5 * time.Second,
			ReadTimeout:       10 * time.Second,
			WriteTimeout:      30 * time.Second,
			// A connection uses about 30 KiB, and other clients than the API server may open many.
			IdleTimeout:    10 * time.Second,
			MaxHeaderBytes: 16 << 10,
			// Disconnects, and requests before there is a certificate, are not errors.
			ErrorLog: slog.NewLogLogger(logr.ToSlogHandler(certs.log.V(1)), slog.LevelInfo),
		},
		Listener: tls.NewListener(connlimit.Listen(o.Listener, maxConns), &tls.Config{
			MinVersion:     tls.VersionTLS13,
			NextProtos:     []string{"h2", "http/1.1"},
			GetCertificate: certs.certificate,
		}),
		// The leader releases its lease only after the shutdown.
		ShutdownTimeout: new(time.Second),
	}
}

// requirePath rejects clients other than the API server, which do not know the path. It closes
// their connections without reading the body.
func requirePath(known func(path string) bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || !known(r.URL.Path) {
			w.Header().Set("Connection", "close")
			// Otherwise net/http would read the rest of the request.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now())
			http.NotFound(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// limitBodies limits the total memory of request bodies, and the time for which a slow client may
// occupy some of it. It calls busy for each request that is rejected for these reasons.
func limitBodies(next http.Handler, busy func()) http.Handler {
	buffered := semaphore.NewWeighted(maxBuffered)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength < 0 || r.ContentLength > maxBody {
			http.Error(w, "Content-Length is required, at most 7 MiB", http.StatusRequestEntityTooLarge)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), bodyTimeout)
		defer cancel()
		if err := buffered.Acquire(ctx, r.ContentLength); err != nil {
			busy()
			http.Error(w, "too many concurrent requests", http.StatusServiceUnavailable)
			return
		}
		defer buffered.Release(r.ContentLength)
		body := make([]byte, r.ContentLength)
		err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
		if _, readErr := io.ReadFull(r.Body, body); errors.Join(err, readErr) != nil {
			busy()
			http.Error(w, "reading the request timed out", http.StatusRequestTimeout)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}
