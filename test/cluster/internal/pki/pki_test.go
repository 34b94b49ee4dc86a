package pki_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"testing"

	"goless.io/test/cluster/internal/pki"
)

func TestIssue(t *testing.T) {
	authority, err := pki.New("test")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue("system:node:n", "system:nodes", "kubernetes.default", "172.30.0.1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.X509KeyPair(pair.Cert, pair.Key); err != nil {
		t.Fatalf("certificate and key do not match: %v", err)
	}
	block, _ := pem.Decode(pair.Cert)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if got := cert.Subject.String(); got != "CN=system:node:n,O=system:nodes" {
		t.Errorf("subject = %q", got)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority.PEM) {
		t.Fatal("the authority's certificate cannot be read")
	}
	for _, host := range []string{"kubernetes.default", "172.30.0.1"} {
		if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
			t.Errorf("as a server under %s: %v", host, err)
		}
	}
	client := x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if _, err := cert.Verify(client); err != nil {
		t.Errorf("as a client: %v", err)
	}
}
