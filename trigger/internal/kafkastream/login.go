package kafkastream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// options returns the client options to connect to the brokers.
func (c *Consumer) options() ([]kgo.Opt, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...),
		kgo.ClientID("goless"),
		kgo.DisableClientMetrics(),
	}
	if c.TLS {
		options = append(options, kgo.Dialer(c.dial))
	}
	if c.Mechanism != "" {
		mechanism, err := c.mechanism()
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.SASL(mechanism))
	}
	return options, nil
}

func (c *Consumer) mechanism() (sasl.Mechanism, error) {
	login := func(context.Context) (scram.Auth, error) {
		password, err := read("authentication.password", c.PasswordFile)
		// Editors and echo append a line feed.
		return scram.Auth{User: c.User, Pass: strings.TrimRight(string(password), "\r\n")}, err
	}
	switch c.Mechanism {
	case "PLAIN":
		return plain.Plain(func(ctx context.Context) (plain.Auth, error) {
			auth, err := login(ctx)
			return plain.Auth{User: auth.User, Pass: auth.Pass}, err
		}), nil
	case "SCRAM-SHA-256":
		return scram.Sha256(login), nil
	case "SCRAM-SHA-512":
		return scram.Sha512(login), nil
	}
	return nil, fmt.Errorf("unknown mechanism %q, want PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", c.Mechanism)
}

// read reads a file that contains the value of a Secret. field is the field of the trigger that
// refers to it.
func read(field, file string) ([]byte, error) {
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("spec.%s: the Secret or its key does not exist", field)
	}
	if err != nil {
		return nil, fmt.Errorf("spec.%s: %w", field, err)
	}
	return content, nil
}

// dial connects with TLS. It always verifies the certificate of the broker.
func (c *Consumer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		content, err := read("tls.ca", c.CAFile)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(content) {
			return nil, errors.New("spec.tls.ca: the Secret contains no PEM certificate")
		}
	}
	if c.CertFile != "" {
		certificate, err := c.certificate()
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: 10 * time.Second}, Config: config}
	return dialer.DialContext(ctx, network, address)
}

// certificate returns the client certificate.
func (c *Consumer) certificate() (tls.Certificate, error) {
	const field = "tls.secretName"
	certificate, err := read(field, c.CertFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := read(field, c.KeyFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("spec.%s: %w", field, err)
	}
	return pair, nil
}
