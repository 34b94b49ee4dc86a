// Package log is a stub of github.com/go-acme/lego/v5/log, so that Traefik compiles without it.
// It logs nothing.
package log

import "log/slog"

// SetDefault does nothing.
func SetDefault(*slog.Logger) {}
