package buildapi

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// ServerTLS returns the configuration of a server with a self-signed certificate of the private
// key, which proves that the server has the seed.
func (k *Keys) ServerTLS() (*tls.Config, error) {
	// Clients compare only the key. All replicas have the same certificate, which does not expire.
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Unix(0, 0),
		NotAfter:     time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), // no expiry, see RFC 5280
	}
	der, err := x509.CreateCertificate(nil, template, template, k.private.Public(), k.private)
	if err != nil {
		return nil, fmt.Errorf("making the certificate: %w", err)
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: k.private}},
	}, nil
}

// ErrSeed means that the server has a different seed.
var ErrSeed = errors.New("the server has a different seed: it is not the build service, or one side uses an old Secret goless-build; restart the operator and the build service")

// ClientTLS returns the configuration of a client that accepts only servers with the same seed,
// with any host name.
func (k *Keys) ClientTLS() *tls.Config {
	want := k.private.Public().(ed25519.PublicKey)
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, // VerifyConnection compares the key instead
		VerifyConnection: func(state tls.ConnectionState) error {
			if got, ok := state.PeerCertificates[0].PublicKey.(ed25519.PublicKey); !ok || !want.Equal(got) {
				return ErrSeed
			}
			return nil
		},
	}
}
