// Package http01 has the options of HTTP challenges.
package http01

import "time"

// PathPrefix is the path of the challenges.
const PathPrefix = "/.well-known/acme-challenge/"

// SetDelay returns no option.
func SetDelay(time.Duration) any { return nil }
