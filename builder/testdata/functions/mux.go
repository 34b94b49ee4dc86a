// Package api uses the patterns of http.ServeMux and a chain of middleware.
package api

import (
	"context"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"
)

type middleware func(http.Handler) http.Handler

type key int

const userKey key = iota

var handler = chain(routes(), logged, authenticated, limited(1<<20))

func chain(h http.Handler, all ...middleware) http.Handler {
	for i := len(all) - 1; i >= 0; i-- {
		h = all[i](h)
	}
	return h
}

func routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /hello/{name}", func(w http.ResponseWriter, r *http.Request) {
		user, _ := r.Context().Value(userKey).(string)
		fmt.Fprintf(w, "hello %s, says %s\n", r.PathValue("name"), user)
	})
	mux.HandleFunc("GET /time", func(w http.ResponseWriter, _ *http.Request) {
		now := time.Now().UTC()
		fmt.Fprintln(w, now.Format(time.RFC3339))
	})
	return mux
}

func logged(next http.Handler) http.Handler {
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		started := time.Now()
		next.ServeHTTP(w, r)
		logger.Info("served", "path", r.URL.Path, "took", time.Since(started))
	})
}

func authenticated(next http.Handler) http.Handler {
	password := os.Getenv("PASSWORD")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, given, ok := r.BasicAuth()
		if password != "" && (!ok || subtle.ConstantTimeCompare([]byte(given), []byte(password)) == 0) {
			w.Header().Set("WWW-Authenticate", `Basic realm="api"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		ctx := context.WithValue(r.Context(), userKey, user)
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

func limited(size int64) middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, size)
			next.ServeHTTP(w, r)
		})
	}
}

// Handler is the whole chain.
func Handler(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }
