// Package lego is a stub of github.com/go-acme/lego/v5/lego, so that Traefik compiles without
// it. Its client returns an error.
package lego

import (
	"crypto/x509"
	"net/http"
	"time"

	"github.com/go-acme/lego/v5/acme"
	"github.com/go-acme/lego/v5/certificate"
	"github.com/go-acme/lego/v5/challenge"
	"github.com/go-acme/lego/v5/registration"
)

// DirectoryURLLetsEncrypt is the default server.
const DirectoryURLLetsEncrypt = "https://acme.invalid"

// Config configures a client.
type Config struct {
	CADirURL, UserAgent string
	Certificate         struct{ Timeout time.Duration }
	HTTPClient          *http.Client
}

// Client is a client.
type Client struct {
	Certificate  certificate.Certifier
	Challenge    challenge.Solvers
	Registration registration.Registrar
}

// NewConfig returns a configuration.
func NewConfig(any) *Config { return &Config{} }

// NewClient returns an error.
func NewClient(*Config) (*Client, error) { return nil, acme.ErrUnsupported }

// CreateCertPool returns an error.
func CreateCertPool([]string, bool) (*x509.CertPool, error) { return nil, acme.ErrUnsupported }
