package main

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// service is a fake build service. The n-th request receives the n-th answer, and requests
// beyond the last one receive the last one.
type service struct {
	*httptest.Server
	private ed25519.PrivateKey
	content []byte
	answers []answer
	asked   chan *http.Request // has room for the requests of a test
	count   atomic.Int32
}

type answer func(*service, http.ResponseWriter, *http.Request)

const (
	testKey        = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	testCapability = "its-capability"
)

func serve(t testing.TB, answers ...answer) *service {
	t.Helper()
	return serveAt(t, "127.0.0.1:0", newKey(1), answers...)
}

func serveAt(t testing.TB, address string, private ed25519.PrivateKey, answers ...answer) *service {
	t.Helper()
	s := &service{private: private, content: program, answers: answers, asked: make(chan *http.Request, 1000)}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s.Server = &httptest.Server{Listener: listener, Config: &http.Server{Handler: s, ErrorLog: log.New(io.Discard, "", 0)}}
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate(t, private)}}
	s.StartTLS()
	t.Cleanup(s.stop)
	return s
}

func (s *service) stop() {
	s.CloseClientConnections()
	s.Close()
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := int(s.count.Add(1)) - 1
	s.asked <- r
	s.answers[min(n, len(s.answers)-1)](s, w, r)
}

// Answers of a service.

func good(s *service, w http.ResponseWriter, _ *http.Request) {
	s.header(w, s.signature(testKey))
	_, _ = w.Write(s.content) // the launcher may have disconnected, here and below
}

func goodFor(key string) answer {
	return func(s *service, w http.ResponseWriter, _ *http.Request) {
		s.header(w, s.signature(key))
		_, _ = w.Write(s.content)
	}
}

func forged(s *service, w http.ResponseWriter, _ *http.Request) {
	s.header(w, s.signature(testKey))
	_, _ = w.Write(append([]byte("forged"), s.content[len("forged"):]...))
}

func unsigned(s *service, w http.ResponseWriter, _ *http.Request) {
	s.header(w, "")
	_, _ = w.Write(s.content)
}

func truncated(s *service, w http.ResponseWriter, _ *http.Request) {
	s.header(w, s.signature(testKey))
	_, _ = w.Write(s.content[:len(s.content)/2])
}

func stalled(s *service, w http.ResponseWriter, r *http.Request) {
	truncated(s, w, r)
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

func slow(s *service, w http.ResponseWriter, _ *http.Request) {
	s.header(w, s.signature(testKey))
	for i := range 500 {
		_, _ = w.Write(s.content[i : i+1])
		_ = http.NewResponseController(w).Flush()
	}
	_, _ = w.Write(s.content[500:])
}

func tooLarge(s *service, w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", strconv.Itoa(256<<20+1))
	_, _ = w.Write(s.content)
}

func waiting(_ *service, _ http.ResponseWriter, r *http.Request) {
	<-r.Context().Done()
	panic(http.ErrAbortHandler) // the client may still read a response after disconnecting
}

func status(code int, text string) answer {
	return func(_ *service, w http.ResponseWriter, _ *http.Request) { http.Error(w, text, code) }
}

func (s *service) header(w http.ResponseWriter, signature string) {
	w.Header().Set("Content-Length", strconv.Itoa(len(s.content)))
	w.Header().Set("Goless-Signature", signature)
}

func (s *service) signature(key string) string {
	hash := sha256.Sum256(s.content)
	options := &ed25519.Options{Context: "goless.io/binary/v1"}
	signature, err := s.private.Sign(nil, []byte(key+"\n"+hex.EncodeToString(hash[:])), options)
	if err != nil {
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(signature)
}

func newKey(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(rune(seed)), ed25519.SeedSize)))
}

func public(private ed25519.PrivateKey) string {
	return base64.RawURLEncoding.EncodeToString(private.Public().(ed25519.PublicKey))
}

func certificate(t testing.TB, private ed25519.PrivateKey) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(nil, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}
}
