package main

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
)

// A binary is a program that a build service has, or is about to have.
type binary struct {
	url             string
	key, capability string
	service         ed25519.PublicKey // what this key signs may be executed
	transport       *http.Transport
	news            atomic.Value // a string: why the binary is not here
}

// binaryFromEnv takes the variables that name a binary out of the environment. It
// returns nil if they name none.
func binaryFromEnv() (*binary, error) {
	service, key := take("FUNCTION_BUILD_SERVICE"), take("FUNCTION_BINARY")
	capability, public := take("FUNCTION_BINARY_CAPABILITY"), take("FUNCTION_BINARY_PUBLIC_KEY")
	if key == "" {
		return nil, nil
	}
	base, err := url.Parse(service)
	if err != nil || base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("FUNCTION_BUILD_SERVICE is %q: want an https URL", service)
	}
	trusted, err := base64.RawURLEncoding.DecodeString(public)
	if err != nil || len(trusted) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("FUNCTION_BINARY_PUBLIC_KEY is %q: want an Ed25519 key, 43 characters of base64", public)
	}
	b := &binary{url: base.JoinPath("v1/binaries", key).String(), key: key, capability: capability, service: trusted}
	b.transport = newTransport(b.recognise)
	b.news.Store("the build service has not answered yet, it may be compiling")
	return b, nil
}

func take(variable string) string {
	value := os.Getenv(variable)
	_ = os.Unsetenv(variable)
	return value
}

// execute executes the binary, from the first place that allows it. If it returns,
// it could not: what to tell, and the exit code.
func (b *binary) execute(ctx context.Context, program []string, admin *net.TCPListener) (message string, code int) {
	var refusals []string
	for _, p := range places() {
		err := p.check()
		if err == nil {
			leave := b.standIn(admin)
			file, missing := b.fetch(ctx, p)
			switch {
			case ctx.Err() != nil:
				return "asked to end before the binary was here: " + b.why(), exitTerminated
			case missing != nil:
				return "no binary to execute: " + missing.Error(), exitNoBinary
			}
			leave()
			err = syscall.Exec(path(file), program, os.Environ())
			_ = file.Close() // it was only read
			if !errors.Is(err, fs.ErrPermission) {
				return "cannot execute the binary: " + err.Error(), exitNoExecution
			}
		}
		refusals = append(refusals, p.name+": "+err.Error())
	}
	return "no place to execute the binary from: let processes execute memory (vm.memfd_noexec below 2), " +
		"or let the pod compile its source itself (spec.build.strategy: InPod); " +
		strings.Join(refusals, "; "), exitNoExecution
}

// verify tells whether the service has signed this content as that of the binary.
func (b *binary) verify(content io.Reader, signature string) error {
	hash := sha256.New()
	if _, err := io.Copy(hash, content); err != nil {
		return err
	}
	message := b.key + "\n" + hex.EncodeToString(hash.Sum(nil))
	signed, err := base64.RawURLEncoding.DecodeString(signature)
	if err != nil {
		return errForged
	}
	if ed25519.VerifyWithOptions(b.service, []byte(message), signed, &ed25519.Options{Context: "goless.io/binary/v1"}) != nil {
		return errForged
	}
	return nil
}
