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

// authorityKey is where a Secret of a certificate has the certificates of who
// signed it. The key of the authority is kept by nobody: it signs once.
const authorityKey = "ca.crt"

// predated is how much earlier than now a certificate begins to be valid, for the
// clocks of others.
const predated = time.Hour

// pair is a certificate with its key, and what has to be trusted for it.
type pair struct {
	served  *tls.Certificate
	trusted []byte // as PEM
}

// issue makes a pair for a host, as the data of a Secret. Who trusts it goes on
// trusting the pair before, which others may still serve.
func issue(host string, life time.Duration, before []byte) (map[string][]byte, error) {
	chain, key, err := cert.GenerateSelfSignedCertKeyWithOptions(cert.SelfSignedCertKeyOptions{Host: host, MaxAge: life + predated})
	if err != nil {
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	leaf, authority := pem.Decode(chain)
	last, _ := pem.Decode(before)
	trusted := authority
	if last != nil {
		trusted = append(bytes.Clone(authority), pem.EncodeToMemory(last)...)
	}
	return map[string][]byte{
		corev1.TLSCertKey: pem.EncodeToMemory(leaf), corev1.TLSPrivateKeyKey: key, authorityKey: trusted,
	}, nil
}

// open reads a pair that is good for a host now.
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

// authentic tells whether who trusts these authorities believes a certificate.
func authentic(served *tls.Certificate, trusted []byte) bool {
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(trusted)
	_, err := served.Leaf.Verify(x509.VerifyOptions{Roots: authorities})
	return err == nil
}

// same tells whether two certificates are one.
func same(a, b *tls.Certificate) bool { return a != nil && a.Leaf.Equal(b.Leaf) }
