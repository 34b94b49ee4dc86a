// Package http01 is a stub of github.com/go-acme/lego/v5/challenge/http01, so that Traefik
// compiles without it. Its options have no effect.
package http01

import "time"

// PathPrefix is the path of the challenges.
const PathPrefix = "/.well-known/acme-challenge/"

// SetDelay returns no option.
func SetDelay(time.Duration) any { return nil }
