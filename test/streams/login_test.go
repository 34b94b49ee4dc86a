package streams

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// A missing or wrong Secret is reported, and both can be fixed while the process runs.
func TestNATSLogin(t *testing.T) {
	dir := t.TempDir()
	const userSeed, userKey = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY", "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"
	operator, credentials := operated(t)
	_, others := operated(t)
	for name, test := range map[string]struct {
		configuration, flag, wrong, right string
		option                            nats.Option
		field                             string
		more                              []string
	}{
		"Password": {
			configuration: "authorization {user: shop, password: secret}", flag: "--password-file", wrong: "guess", right: "secret\n",
			option: nats.UserInfo("shop", "secret"), field: "spec.authentication.password", more: []string{"--user=shop"},
		},
		"Token": {
			configuration: "authorization {token: secret}", flag: "--token-file", wrong: "guess", right: "secret",
			option: nats.Token("secret"), field: "spec.authentication.token",
		},
		"NKey": {
			configuration: "authorization {users: [{nkey: " + userKey + "}]}", flag: "--nkey-file", wrong: "SUAOTHER", right: userSeed,
			field: "spec.authentication.nkey",
		},
		"Credentials": {
			configuration: operator, flag: "--creds-file", wrong: others, right: credentials,
			option: nats.UserCredentialBytes([]byte(credentials)), field: "spec.authentication.credentials",
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, name)
			option := test.option
			if option == nil {
				seed := filepath.Join(dir, "seed")
				write(t, seed, userSeed)
				var err error
				if option, err = nats.NkeyOptionFromSeed(seed); err != nil {
					t.Fatal(err)
				}
			}
			server := newNATS(t, test.configuration)
			js := server.connect(t, option)
			orders(t, js)
			publish(t, js, "orders.7", "0")
			f := newFunction(t, ok)
			c := consume(t, f, server.stock(append(test.more, test.flag+"="+file)...)...)
			eventually(t, "it reports which Secret is missing", func() bool { return c.says(t, "NotConnected", test.field) })
			write(t, file, test.wrong)
			eventually(t, "it reports that the Secret is wrong", func() bool {
				s := c.status(t)
				return s != nil && s.has("NotConnected", "") && !strings.Contains(s.Problems[0].Message, "does not exist")
			})
			write(t, file, test.right)
			eventually(t, "the message is accepted", func() bool { return distinct(f) == 1 && c.healthy(t) })
		})
	}
}

// A rotated Secret is reported until it matches the server, and no event is lost meanwhile.
// Another nkey uses a new connection, even while an event is blocked.
func TestNATSRotated(t *testing.T) {
	oldSeed, oldKey := seedOf(t)
	newSeed, newKey := seedOf(t)
	for name, test := range map[string]struct {
		users   [2]string // what the server knows, before and after
		secrets [2]string
		flags   []string
		blocked bool // an event is, which holds up those after it
	}{
		"Password": {[2]string{"user: shop, password: old", "user: shop, password: new"}, [2]string{"old", "new"}, []string{"--user=shop", "--password-file="}, false},
		"NKey":     {[2]string{"nkey: " + oldKey, "nkey: " + newKey}, [2]string{oldSeed, newSeed}, []string{"--nkey-file="}, true},
	} {
		t.Run(name, func(t *testing.T) {
			users := func(shop string) string {
				return fmt.Sprintf("authorization {users: [{user: test, password: test}, {%s}]}", shop)
			}
			server := newNATS(t, users(test.users[0]))
			js := server.connect(t, nats.UserInfo("test", "test"))
			orders(t, js)
			publish(t, js, "orders.7", "0")
			secret := filepath.Join(t.TempDir(), "secret")
			write(t, secret, test.secrets[0])
			test.flags[len(test.flags)-1] += secret
			var refuse atomic.Bool
			f := newFunction(t, func(cloudevents.Event, int) int {
				if refuse.Load() {
					return http.StatusForbidden
				}
				return http.StatusOK
			})
			c := consume(t, f, server.stock(test.flags...)...)
			eventually(t, "the first is accepted", func() bool { return distinct(f) == 1 && c.healthy(t) })

			refuse.Store(test.blocked)
			publish(t, js, "orders.7", "1")
			if test.blocked {
				eventually(t, "the second is blocked", func() bool { return c.says(t, "Blocked", "") })
			}
			server.configure(t, users(test.users[0]), users(test.users[1]))
			eventually(t, "it reports that the server rejects it", func() bool { return c.says(t, "NotConnected", "") })
			publish(t, js, "orders.7", "2")
			refuse.Store(false)
			write(t, secret, test.secrets[1])
			eventually(t, "all are accepted", func() bool { return distinct(f) == 3 && c.healthy(t) })
			inOrder(t, f.events())
		})
	}
}

// seedOf creates a user, and returns the seed of its nkey and the public key.
func seedOf(t *testing.T) (seed, public string) {
	t.Helper()
	user, public := identity(t, nkeys.CreateUser)
	text, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	return string(text), public
}

// configure replaces a part of the configuration, and makes the server reload it.
func (s *natsServer) configure(t *testing.T, before, after string) {
	t.Helper()
	file := filepath.Join(s.dir, "server.conf")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, strings.Replace(string(text), before, after, 1))
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}

// A user without permission to request messages gets no response, which is reported while it
// lasts.
func TestNATSForbidden(t *testing.T) {
	const next = "$JS.API.CONSUMER.MSG.NEXT.>"
	server := newNATS(t, fmt.Sprintf("authorization {users: [{user: test, password: test}, {user: shop, password: secret, permissions: {publish: {deny: %q}}}]}", next))
	js := server.connect(t, nats.UserInfo("test", "test"))
	orders(t, js)
	publish(t, js, "orders.7", "0")
	password := filepath.Join(t.TempDir(), "password")
	write(t, password, "secret")
	f := newFunction(t, ok)
	c := consume(t, f, server.stock("--user=shop", "--password-file="+password)...)
	eventually(t, "it reports what is forbidden", func() bool { return c.says(t, "NotConnected", "MSG.NEXT.ORDERS.shop") })
	told := time.Now()
	eventually(t, "it has requested messages again", func() bool {
		if c.healthy(t) {
			t.Fatal("it no longer reports what is forbidden")
		}
		return time.Since(told) > 5*time.Second
	})
	server.configure(t, next, "nothing")
	eventually(t, "the message is accepted", func() bool { return distinct(f) == 1 && c.healthy(t) })
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Servers are verified with the configured authority, and verify the trigger. A server with
// another authority is rejected, which is reported, as is a trigger that the server rejects.
// Both can be fixed while the process runs.
func TestNATSTLS(t *testing.T) {
	dir := t.TempDir()
	right, wrong := newAuthority(t), newAuthority(t)
	ca := filepath.Join(dir, "ca.crt")
	write(t, ca, right.pem)
	right.issue(t, dir, "server")
	right.issue(t, dir, "test")
	server := newNATS(t, fmt.Sprintf("tls {cert_file: %q, key_file: %q, ca_file: %q, verify: true}",
		filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key"), ca))
	js := server.connect(t, nats.RootCAs(ca), nats.ClientCert(filepath.Join(dir, "test.crt"), filepath.Join(dir, "test.key")))
	orders(t, js)
	publish(t, js, "orders.7", "0")

	trusted := filepath.Join(dir, "trusted.crt")
	f := newFunction(t, ok)
	c := consume(t, f, server.stock("--tls", "--ca-file="+trusted,
		"--cert-file="+filepath.Join(dir, "trigger.crt"), "--key-file="+filepath.Join(dir, "trigger.key"))...)
	eventually(t, "it reports that a Secret is missing", func() bool { return c.says(t, "NotConnected", "the Secret or its key does not exist") })
	write(t, trusted, wrong.pem)
	wrong.issue(t, dir, "trigger")
	eventually(t, "it rejects the certificate of the server", func() bool { return c.says(t, "NotConnected", "certificate signed by unknown authority") })
	write(t, trusted, right.pem)
	eventually(t, "the server rejects its certificate", func() bool { return c.says(t, "NotConnected", "remote error: tls: ") })
	right.issue(t, dir, "trigger")
	eventually(t, "the message is accepted", func() bool { return distinct(f) == 1 && c.healthy(t) })
}

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{certificate: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	a.pem = a.sign(t, a.certificate, a.key)
	return a
}

// sign returns a certificate in PEM.
func (a *authority) sign(t *testing.T, template *x509.Certificate, key *ecdsa.PrivateKey) string {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// issue writes a certificate for this machine and its key to NAME.crt and NAME.key.
func (a *authority) issue(t *testing.T, dir, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, name+".key"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
	write(t, filepath.Join(dir, name+".crt"), a.sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, key))
}

// operated returns the configuration of a server that authenticates accounts by their operator,
// and the credentials of a user in the format of nsc.
func operated(t *testing.T) (configuration, credentials string) {
	t.Helper()
	operator, operatorKey := identity(t, nkeys.CreateOperator)
	_, systemKey := identity(t, nkeys.CreateAccount)
	account, accountKey := identity(t, nkeys.CreateAccount)
	user, userKey := identity(t, nkeys.CreateUser)

	claims := jwt.NewOperatorClaims(operatorKey)
	claims.SystemAccount = systemKey
	shop := jwt.NewAccountClaims(accountKey)
	shop.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit}
	configuration = fmt.Sprintf("operator: %s\nresolver: MEMORY\nresolver_preload: {%s: %s, %s: %s}\n",
		encode(t, claims, operator),
		systemKey, encode(t, jwt.NewAccountClaims(systemKey), operator),
		accountKey, encode(t, shop, operator))
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.FormatUserConfig(encode(t, jwt.NewUserClaims(userKey), account), seed)
	if err != nil {
		t.Fatal(err)
	}
	return configuration, string(text)
}

// identity creates a key, and returns it with its public key.
func identity(t *testing.T, create func() (nkeys.KeyPair, error)) (nkeys.KeyPair, string) {
	t.Helper()
	key, err := create()
	if err != nil {
		t.Fatal(err)
	}
	public, err := key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return key, public
}

func encode(t *testing.T, claims jwt.Claims, by nkeys.KeyPair) string {
	t.Helper()
	token, err := claims.Encode(by)
	if err != nil {
		t.Fatal(err)
	}
	return token
}
