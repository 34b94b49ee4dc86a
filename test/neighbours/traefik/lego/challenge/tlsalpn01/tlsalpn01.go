// Package tlsalpn01 is a stub of github.com/go-acme/lego/v5/challenge/tlsalpn01, so that Traefik
// compiles without it. Its options have no effect, and ChallengeBlocks returns an error.
package tlsalpn01

import (
	"time"

	"github.com/go-acme/lego/v5/acme"
)

// ACMETLS1Protocol is the protocol of the challenges.
const ACMETLS1Protocol = "acme-tls/1"

// SetDelay returns no option.
func SetDelay(time.Duration) any { return nil }

// ChallengeBlocks returns an error.
func ChallengeBlocks(_, _ string) (certificate, key []byte, err error) {
	return nil, nil, acme.ErrUnsupported
}
