// Package current names the modules that tests use.
package current

import (
	_ "github.com/go-chi/chi/v5"
	_ "github.com/goccy/go-yaml"
	_ "github.com/golang-jwt/jwt/v5"
	_ "github.com/google/uuid"
	_ "github.com/prometheus/client_golang/prometheus/promauto"
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "go.uber.org/zap"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/text/language"
	_ "golang.org/x/text/message"
)
