module example.com/dependencies

go 1.26.0

require (
	github.com/coder/websocket v1.8.15
	github.com/go-chi/chi/v5 v5.5.0
	github.com/golang-jwt/jwt/v5 v5.3.1
	github.com/google/uuid v1.6.0
	go.yaml.in/yaml/v3 v3.0.6
	golang.org/x/text v0.43.0
)
