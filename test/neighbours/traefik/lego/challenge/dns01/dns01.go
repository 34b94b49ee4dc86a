// Package dns01 is a stub of github.com/go-acme/lego/v5/challenge/dns01, so that Traefik
// compiles without it. Its options have no effect.
package dns01

import (
	"strings"
	"time"
)

// Options are the options of a Client.
type Options struct{ RecursiveNameservers []string }

// Client is a DNS client.
type Client struct{}

// NewClient returns a Client.
func NewClient(*Options) *Client { return &Client{} }

// SetDefaultClient does nothing.
func SetDefaultClient(*Client) {}

// CondOptions returns no options.
func CondOptions(bool, ...any) any { return nil }

// DisableAuthoritativeNssPropagationRequirement returns no option.
func DisableAuthoritativeNssPropagationRequirement() any { return nil }

// DisableRecursiveNSsPropagationRequirement returns no option.
func DisableRecursiveNSsPropagationRequirement() any { return nil }

// PropagationWait returns no option.
func PropagationWait(time.Duration, bool) any { return nil }

// UnFqdn removes the dot at the end of a name.
func UnFqdn(name string) string { return strings.TrimSuffix(name, ".") }
