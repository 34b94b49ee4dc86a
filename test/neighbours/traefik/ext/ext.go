// Package ext is a stub of github.com/traefik/traefik/dynamic/ext, so that Traefik compiles
// without it: the zip of Traefik's module does not contain that nested module. It contains the
// fields that extensions add to the configuration. In Traefik, both types are empty too.
package ext

// HTTP is embedded in the HTTP configuration.
type HTTP struct{}

// Router is embedded in the configuration of a router.
type Router struct{}
