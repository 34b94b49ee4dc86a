package kafkastream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// options are those of a client that reaches the brokers.
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
		username, err := credential(c.UsernameFile)
		if err != nil {
			return scram.Auth{}, err
		}
		password, err := credential(c.PasswordFile)
		return scram.Auth{User: username, Pass: password}, err
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
	return nil, fmt.Errorf("the mechanism %q is none of PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512", c.Mechanism)
}

// credential reads a file of a Secret. Editors and echo leave a line feed at its end.
func credential(file string) (string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("reading the credentials: %w", err)
	}
	return strings.TrimRight(string(content), "\r\n"), nil
}

// dial connects with TLS. The certificate of the broker is always verified.
func (c *Consumer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		content, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("reading the certificates of the brokers: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(content) {
			return nil, errors.New("the Secret for the certificates of the brokers has none in PEM")
		}
	}
	if c.CertFile != "" {
		certificate, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("reading the certificate of the client: %w", err)
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: 10 * time.Second}, Config: config}
	return dialer.DialContext(ctx, network, address)
}
