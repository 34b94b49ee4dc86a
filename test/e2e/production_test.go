package e2e

import (
	"crypto/x509"
	_ "embed" // the source of the function
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
)

//go:embed testdata/production/handler.go
var production string

// sent100MB makes the function of testdata/production send itself a form with a file of 100 MB.
var sent100MB = call{method: http.MethodGet, path: "/send?to=http://localhost:8080/upload", status: http.StatusOK, answer: "100000000"}

// A function has a certificate and its key as files, stores an upload of 100 MB, and can read
// exactly one object with its token.
func TestProduction(t *testing.T) {
	t.Parallel()
	for _, strategy := range []v1beta1.BuildStrategy{v1beta1.BuildShared, v1beta1.BuildInPod} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			certificate, key := exampleCertificate(t)
			ns.create(&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: "tls"}, Type: corev1.SecretTypeTLS,
				Data: map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key},
			})
			ns.reader()
			ns.open("reader")
			fn := ns.ready(ns.apply(function("production", production, asReader, func(spec *v1beta1.FunctionSpec) {
				spec.Build = &v1beta1.BuildSpec{Strategy: strategy}
				spec.Files = []v1beta1.File{{Name: "tls", Secret: &v1beta1.FileSource{Name: "tls"}}}
				spec.Scratch = &v1beta1.Scratch{Size: resource.MustParse("256Mi")}
			})))
			ns.reach(fn)
			ns.makes(fn, call{method: http.MethodGet, path: "/certificate", status: http.StatusOK, part: "example.com"})
			ns.makes(fn, sent100MB)
			ns.readsWhatItMay(fn)
		})
	}
}

// exampleCertificate returns a certificate of example.com and its key, in PEM.
func exampleCertificate(t *testing.T) (certificate, key []byte) {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	pair := server.TLS.Certificates[0]
	private, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
}
