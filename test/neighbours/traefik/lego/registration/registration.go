// Package registration is a stub of github.com/go-acme/lego/v5/registration, so that Traefik
// compiles without it. Registering an account returns an error.
package registration

import (
	"context"

	"github.com/go-acme/lego/v5/acme"
)

// RegisterOptions are the options of a registration.
type RegisterOptions struct{ TermsOfServiceAgreed bool }

// RegisterEABOptions are the options of a registration with an external account.
type RegisterEABOptions struct {
	TermsOfServiceAgreed bool
	Kid, HmacEncoded     string
}

// Registrar registers accounts.
type Registrar struct{}

// Register returns an error.
func (Registrar) Register(context.Context, RegisterOptions) (*acme.ExtendedAccount, error) {
	return nil, acme.ErrUnsupported
}

// RegisterWithExternalAccountBinding returns an error.
func (Registrar) RegisterWithExternalAccountBinding(context.Context, RegisterEABOptions) (*acme.ExtendedAccount, error) {
	return nil, acme.ErrUnsupported
}
