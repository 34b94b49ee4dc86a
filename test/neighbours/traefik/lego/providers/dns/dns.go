// Package dns is a stub of github.com/go-acme/lego/v5/providers/dns, so that Traefik compiles
// without it. It contains no DNS providers.
package dns

import (
	"github.com/go-acme/lego/v5/acme"
	"github.com/go-acme/lego/v5/challenge"
)

// NewDNSChallengeProviderByName returns an error.
func NewDNSChallengeProviderByName(string) (challenge.Provider, error) {
	return nil, acme.ErrUnsupported
}
