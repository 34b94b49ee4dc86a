package admission

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/cert"
)

// authorityKey is the key of the Secret with the certificates of the authorities to trust. Each
// authority has signed one certificate, and its private key was thrown away.
const authorityKey = "ca.crt"

// A pair is a certificate with its key, and the authorities to trust for it.
type pair struct {
	served  *tls.Certificate
	trusted []byte // as PEM
}

// issue makes a certificate for a host, as the data of a Secret. Its life began an hour ago, because the
// clocks of other machines may be late. The newest of the authorities before is still trusted, because
// other replicas may still serve its certificate.
func issue(host string, life time.Duration, before []byte) (map[string][]byte, error) {
	chain, key, err := cert.GenerateSelfSignedCertKeyWithOptions(cert.SelfSignedCertKeyOptions{Host: host, MaxAge: life})
	if err != nil {
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	leaf, authority := pem.Decode(chain)
	trusted := authority
	if newest, _ := pem.Decode(before); newest != nil {
		trusted = append(bytes.Clone(authority), pem.EncodeToMemory(newest)...)
	}
	return map[string][]byte{
		corev1.TLSCertKey: pem.EncodeToMemory(leaf), corev1.TLSPrivateKeyKey: key, authorityKey: trusted,
	}, nil
}

// open returns the pair in the data of a Secret. It is an error if the certificate is not valid for a
// host now.
func open(data map[string][]byte, host string, now time.Time) (pair, error) {
	served, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return pair{}, err
	}
	if err := served.Leaf.VerifyHostname(host); err != nil {
		return pair{}, err
	}
	if now.After(served.Leaf.NotAfter) {
		return pair{}, errors.New("the certificate has expired")
	}
	return pair{served: &served, trusted: data[authorityKey]}, nil
}

// signedBy tells whether one of the authorities has signed a certificate.
func signedBy(served *tls.Certificate, trusted []byte) bool {
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(trusted)
	_, err := served.Leaf.Verify(x509.VerifyOptions{Roots: authorities})
	return err == nil
}

// equal tells whether two certificates are equal.
func equal(a, b *tls.Certificate) bool { return a != nil && a.Leaf.Equal(b.Leaf) }
