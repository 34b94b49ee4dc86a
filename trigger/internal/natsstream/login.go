package natsstream

import (
	"crypto/tls"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/nats-io/nats.go"
)

// login contains the credentials of the trigger and the CAs that it trusts. The secrets are in
// files, which are read for each connection, because they change with their Secret.
type login struct {
	user                         string
	password, token, nkey, creds string
	ca, certificate, key         string
	secure                       bool
}

func (l *login) flags(flags *flag.FlagSet) {
	flags.StringVar(&l.user, "user", "", "name of the user")
	flags.StringVar(&l.password, "password-file", "", "file with the password of the user")
	flags.StringVar(&l.token, "token-file", "", "file with a token")
	flags.StringVar(&l.nkey, "nkey-file", "", "file with the seed of an nkey")
	flags.StringVar(&l.creds, "creds-file", "", "file with credentials: a JWT and the seed of its nkey")
	flags.BoolVar(&l.secure, "tls", false, "use TLS for all servers, whatever the scheme of their URLs")
	flags.StringVar(&l.ca, "ca-file", "", "file with the CA certificates of the servers (default: those of the system)")
	flags.StringVar(&l.certificate, "cert-file", "", "file with the client certificate")
	flags.StringVar(&l.key, "key-file", "", "file with the key of the client certificate")
}

// options returns the options of a connection. A missing file is an error.
func (l *login) options() ([]nats.Option, error) {
	for field, file := range map[string]string{
		"authentication.password": l.password, "authentication.token": l.token, "authentication.nkey": l.nkey, "authentication.credentials": l.creds,
		"tls.ca": l.ca, "tls.secretName": l.certificate,
	} {
		if _, err := os.Stat(file); file != "" && err != nil {
			return nil, fmt.Errorf("spec.%s: the Secret or its key does not exist", field)
		}
	}
	var options []nats.Option
	switch {
	case l.password != "":
		options = append(options, nats.UserInfoHandler(func() (string, string) { return l.user, text(l.password) }))
	case l.token != "":
		options = append(options, nats.TokenHandler(func() string { return text(l.token) }))
	case l.nkey != "":
		option, err := nats.NkeyOptionFromSeed(l.nkey)
		if err != nil {
			return nil, fmt.Errorf("spec.authentication.nkey: %w", err)
		}
		options = append(options, option)
	case l.creds != "":
		options = append(options, nats.UserCredentials(l.creds))
	}
	if l.secure {
		options = append(options, nats.Secure(&tls.Config{MinVersion: tls.VersionTLS12}))
	}
	if l.ca != "" {
		options = append(options, nats.RootCAs(l.ca))
	}
	if l.certificate != "" {
		options = append(options, nats.ClientCert(l.certificate, l.key))
	}
	return options, nil
}

// hasOtherNkey reports whether the file contains a different NKey from that of a connection, which
// keeps the NKey that it began with.
func (l *login) hasOtherNkey(public string) bool {
	if l.nkey == "" {
		return false
	}
	var now nats.Options
	option, err := nats.NkeyOptionFromSeed(l.nkey)
	return err == nil && option(&now) == nil && now.Nkey != public
}

// text reads a file of one line. It returns "" if the file cannot be read; the servers reject that.
func text(file string) string {
	content, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return strings.TrimRight(string(content), "\r\n")
}
