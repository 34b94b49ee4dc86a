// Package handlers serves an HTML page and the files that it needs. All are embedded in the binary.
package handlers

import (
	"embed"
	"html/template"
	"log/slog"
	"net/http"
)

//go:embed page.html
var source string

//go:embed static
var static embed.FS

var (
	page = template.Must(template.New("page").Parse(source))
	mux  = routes()
)

func routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET /static/", http.FileServerFS(static))
	mux.HandleFunc("GET /{$}", show)
	return mux
}

// Handler serves every request.
func Handler(w http.ResponseWriter, r *http.Request) { mux.ServeHTTP(w, r) }

func show(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if err := page.Execute(w, map[string]string{"Name": r.FormValue("name")}); err != nil {
		slog.WarnContext(r.Context(), "the page was not sent", "error", err)
	}
}
