// Package certificate is a stub of github.com/go-acme/lego/v5/certificate, so that Traefik
// compiles without it. Requests for certificates return an error.
package certificate

import (
	"context"

	"github.com/go-acme/lego/v5/acme"
	"github.com/go-acme/lego/v5/certcrypto"
)

// Resource is a certificate.
type Resource struct {
	ID                      string
	Domains                 []string
	PrivateKey, Certificate []byte
}

// ObtainRequest is a request for a certificate.
type ObtainRequest struct {
	Domains, EmailAddresses  []string
	Bundle, EnableCommonName bool
	Profile, PreferredChain  string
	KeyType                  certcrypto.KeyType
}

// RenewOptions are the options of a renewal.
type RenewOptions struct {
	EmailAddresses           []string
	Bundle, EnableCommonName bool
	Profile, PreferredChain  string
}

// Certifier requests certificates.
type Certifier struct{}

// Obtain returns an error.
func (Certifier) Obtain(context.Context, ObtainRequest) (*Resource, error) {
	return nil, acme.ErrUnsupported
}

// Renew returns an error.
func (Certifier) Renew(context.Context, Resource, *RenewOptions) (*Resource, error) {
	return nil, acme.ErrUnsupported
}
