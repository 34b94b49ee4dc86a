// Package challenge is a stub of github.com/go-acme/lego/v5/challenge, so that Traefik compiles
// without it. Setting a provider returns an error.
package challenge

import (
	"context"

	"github.com/go-acme/lego/v5/acme"
)

// Provider presents challenges.
type Provider interface {
	Present(ctx context.Context, domain, token, keyAuth string) error
	CleanUp(ctx context.Context, domain, token, keyAuth string) error
}

// Solvers has a provider for each type of challenge.
type Solvers struct{}

// SetDNS01Provider returns an error.
func (Solvers) SetDNS01Provider(Provider, ...any) error { return acme.ErrUnsupported }

// SetHTTP01Provider returns an error.
func (Solvers) SetHTTP01Provider(Provider, any) error { return acme.ErrUnsupported }

// SetTLSALPN01Provider returns an error.
func (Solvers) SetTLSALPN01Provider(Provider, any) error { return acme.ErrUnsupported }
