// Package ext stands in for the package of Traefik with the fields that extensions add to the
// configuration. In Traefik, both types are empty too.
package ext

// HTTP is embedded in the HTTP configuration.
type HTTP struct{}

// Router is embedded in the configuration of a router.
type Router struct{}
