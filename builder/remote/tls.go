package remote

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// ServerTLS returns the configuration of a server, with a certificate of the private key
// that it has signed itself. It proves that the server has the seed.
func (k *Keys) ServerTLS() (*tls.Config, error) {
	// Clients compare the key and nothing else. So replicas have equal certificates, and
	// these do not expire.
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Unix(0, 0),
		NotAfter:     time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), // which means never, by RFC 5280
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

// ErrSeed says that the server has another seed.
var ErrSeed = errors.New("this is not the build service, or it has another seed: restart what was started with an old Secret goless-build")

// ClientTLS returns the configuration of a client that accepts servers with the same seed,
// and no others, whatever their names are.
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
