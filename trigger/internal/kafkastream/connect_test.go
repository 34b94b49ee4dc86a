package kafkastream

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"goless.io/trigger/internal/stream"
)

// Each mechanism authenticates over TLS with a client certificate. A missing or invalid Secret is
// reported, and works once it is correct. When authentication fails, kfake closes the connection
// where Kafka would send an error.
func TestCredentials(t *testing.T) {
	certificate, ca := newCertificate(t)
	_, other := newCertificate(t)
	const missing = ": the Secret or its key does not exist"
	for mechanism, test := range map[string]struct{ file, field, wrong, told string }{
		"PLAIN":         {"password", "spec.authentication.password", "wrong", ": EOF"},
		"SCRAM-SHA-256": {"tls.key", "spec.tls.secretName", "no key", "spec.tls.secretName: tls: "},
		"SCRAM-SHA-512": {"ca.crt", "spec.tls.ca", other, "certificate signed by unknown authority"},
	} {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			cluster := newCluster(t, kfake.TLS(serverTLS(certificate)), kfake.EnableSASL(),
				kfake.Superuser(mechanism, "shop", "secret"), kfake.Superuser("PLAIN", "admin", "admin"))
			s := secret{t, t.TempDir(), map[string]string{"password": "secret\n", "ca.crt": ca, "tls.crt": ca, "tls.key": keyOf(t, certificate)}}
			s.putAllBut(test.file)
			f := newFunction(t)
			monitor, _ := start(t, &Consumer{
				Brokers: cluster.ListenAddrs(), Topic: "orders", Group: "shop", SessionTimeout: session,
				Mechanism: mechanism, User: "shop", PasswordFile: s.file("password"),
				TLS: true, CAFile: s.file("ca.crt"), CertFile: s.file("tls.crt"), KeyFile: s.file("tls.key"),
			}, f, "")
			awaitMessage(t, monitor, test.field+missing)
			s.put(test.file, test.wrong)
			awaitMessage(t, monitor, test.told)
			s.put(test.file, s.values[test.file])
			awaitProblem(t, monitor, "")

			admin := brokers{addresses: cluster.ListenAddrs()}.client(t, kgo.SASL(plain.Auth{User: "admin", Pass: "admin"}.AsMechanism()),
				kgo.Dialer((&Consumer{CAFile: s.file("ca.crt"), CertFile: s.file("tls.crt"), KeyFile: s.file("tls.key")}).dial))
			if err := admin.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Key: []byte("key-0"), Value: []byte("0")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
			f.await(1)
			f.check()
		})
	}
}

// A secret is a directory with the values of a Secret.
type secret struct {
	t      *testing.T
	dir    string
	values map[string]string
}

func (s secret) file(name string) string { return filepath.Join(s.dir, name) }

func (s secret) put(name, content string) {
	s.t.Helper()
	if err := os.WriteFile(s.file(name), []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s secret) putAllBut(missing string) {
	s.t.Helper()
	for name, content := range s.values {
		if name != missing {
			s.put(name, content)
		}
	}
}

// refuseFirst is the response of a function that rejects the first event.
func refuseFirst(key string, _ int) int {
	if key == "key-0" {
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// While the dead letter cannot be written, this is reported and later events wait. The event is not
// dropped and is in the dead-letter topic exactly once in the end.
func TestDeadLetterDown(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer func(*kmsg.ProduceRequest) (kmsg.Response, error)
		told   string
	}{
		"Refuses": {func(request *kmsg.ProduceRequest) (kmsg.Response, error) { return refusal(request), nil }, "TOPIC_AUTHORIZATION_FAILED"},
		// It is unknown then whether the broker has stored it.
		"Crashes": {func(*kmsg.ProduceRequest) (kmsg.Response, error) { return nil, errors.New("the connection is cut") }, "timed out"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, f := newCluster(t), newFunction(t)
			b := brokers{addresses: cluster.ListenAddrs()}
			b.produce(t, "orders", 2, 2)
			var down atomic.Bool
			down.Store(true)
			cluster.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
				cluster.KeepControl()
				if !down.Load() {
					return nil, nil, false
				}
				answer, err := test.answer(request.(*kmsg.ProduceRequest))
				return answer, err, true
			})
			f.answer = refuseFirst
			monitor, _ := start(t, &Consumer{Brokers: b.addresses, Topic: "orders", Group: "shop", SessionTimeout: session}, f, "orders.dead")
			message := awaitText(t, monitor, stream.DeadLetterFailed, test.told)
			if !strings.Contains(message, "orders.dead") {
				t.Error(message)
			}
			if n := f.taken(); n > 0 {
				t.Errorf("%d events were delivered that come later", n)
			}
			down.Store(false)
			f.await(1)
			awaitProblem(t, monitor, "")
			b.records(t, "orders.dead", 1)
		})
	}
}

// A process terminates in time while it is unknown whether the dead letter has been stored.
func TestEndWhileDeadLetterDown(t *testing.T) {
	t.Parallel()
	cluster, f := newCluster(t), newFunction(t)
	b := brokers{addresses: cluster.ListenAddrs()}
	b.produce(t, "orders", 1, 1)
	asked := make(chan struct{}, 100)
	cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		select {
		case asked <- struct{}{}:
		default:
		}
		return nil, errors.New("the connection is cut"), true
	})
	f.answer = func(string, int) int { return http.StatusBadRequest }
	_, stop := start(t, &Consumer{Brokers: b.addresses, Topic: "orders", Group: "shop", SessionTimeout: session}, f, "orders.dead")
	<-asked
	stop()
}

// refusal returns a response that denies the client to write.
func refusal(request *kmsg.ProduceRequest) kmsg.Response {
	answer := request.ResponseKind().(*kmsg.ProduceResponse)
	answer.Version = request.Version
	for _, topic := range request.Topics {
		refused := kmsg.ProduceResponseTopic{Topic: topic.Topic, TopicID: topic.TopicID}
		for _, p := range topic.Partitions {
			refused.Partitions = append(refused.Partitions, kmsg.ProduceResponseTopicPartition{Partition: p.Partition, ErrorCode: kerr.TopicAuthorizationFailed.Code})
		}
		answer.Topics = append(answer.Topics, refused)
	}
	return answer
}

// A topic that does not exist is reported with its name.
func TestNoTopic(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	monitor, _ := start(t, &Consumer{Brokers: cluster.ListenAddrs(), Topic: "nothing", Group: "shop", SessionTimeout: session}, newFunction(t), "")
	awaitMessage(t, monitor, "topic nothing cannot be consumed: UNKNOWN_TOPIC_OR_PARTITION")
}

// session is the session timeout of consumers that stay members, even if the machine stalls.
const session = 45 * time.Second

// newCluster returns a broker in this process with the topics orders and orders.dead.
func newCluster(t *testing.T, options ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	cluster, err := kfake.NewCluster(append(options, kfake.NumBrokers(1), kfake.SeedTopics(1, "orders", "orders.dead"))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster
}

// awaitMessage waits until the consumer reports why it is not connected.
func awaitMessage(t *testing.T, m *stream.Monitor, want string) {
	t.Helper()
	awaitText(t, m, stream.NotConnected, want)
}

// awaitText waits until the message of the problem with a reason contains a text, and returns the
// message.
func awaitText(t *testing.T, m *stream.Monitor, reason, want string) string {
	t.Helper()
	message := ""
	for deadline := time.Now().Add(time.Minute); !strings.Contains(message, want); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the problem is %q, want %q in it", message, want)
		}
		message = awaitProblem(t, m, reason)
	}
	return message
}

// serverTLS returns the TLS configuration of a broker that accepts clients with the same
// certificate.
func serverTLS(certificate tls.Certificate) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(certificate.Leaf)
	return &tls.Config{Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
}

// keyOf returns the key of a certificate, in PEM.
func keyOf(t *testing.T, certificate tls.Certificate) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// newCertificate returns a self-signed certificate for 127.0.0.1, also in PEM.
func newCertificate(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
