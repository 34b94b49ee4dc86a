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

// authorityKey is the key of the certificate authorities in the Secret. Each authority has signed
// one certificate, and its private key was discarded.
const authorityKey = "ca.crt"

// A keyPair is a certificate with its private key and the authorities that clients must trust.
type keyPair struct {
	served  *tls.Certificate
	trusted []byte // PEM
}

// issueKeyPair creates a certificate for a host and returns the data of a Secret. The validity
// starts an hour ago to tolerate clock skew. The newest authority in before stays trusted, because
// other replicas may still serve its certificate.
func issueKeyPair(host string, life time.Duration, before []byte) (map[string][]byte, error) {
	chain, key, err := cert.GenerateSelfSignedCertKeyWithOptions(cert.SelfSignedCertKeyOptions{Host: host, MaxAge: life})
	if err != nil {
		return nil, fmt.Errorf("creating a certificate: %w", err)
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

// parseKeyPair parses the data of a Secret. It returns an error if the certificate is not valid for
// the host at the given time.
func parseKeyPair(data map[string][]byte, host string, now time.Time) (keyPair, error) {
	served, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return keyPair{}, err
	}
	if err := served.Leaf.VerifyHostname(host); err != nil {
		return keyPair{}, err
	}
	if now.After(served.Leaf.NotAfter) {
		return keyPair{}, errors.New("the certificate has expired")
	}
	return keyPair{served: &served, trusted: data[authorityKey]}, nil
}

// signedBy reports whether one of the authorities has signed a certificate.
func signedBy(served *tls.Certificate, trusted []byte) bool {
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(trusted)
	_, err := served.Leaf.Verify(x509.VerifyOptions{Roots: authorities})
	return err == nil
}

// equal reports whether two certificates are equal.
func equal(a, b *tls.Certificate) bool { return a != nil && a.Leaf.Equal(b.Leaf) }
