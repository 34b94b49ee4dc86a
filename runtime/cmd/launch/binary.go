package main

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
)

// A binary is a program that the build service has or is compiling.
type binary struct {
	url             string
	key, capability string
	service         ed25519.PublicKey // key of the build service, which signs the binary
	transport       *http.Transport
	state           atomic.Value // a string: why the binary is not available yet
}

// binaryFromEnv reads the variables that name a binary and removes them from the environment.
// It returns nil if FUNCTION_BINARY is empty.
func binaryFromEnv() (*binary, error) {
	service, key := takeEnv("FUNCTION_BUILD_SERVICE"), takeEnv("FUNCTION_BINARY")
	capability, public := takeEnv("FUNCTION_BINARY_CAPABILITY"), takeEnv("FUNCTION_BINARY_PUBLIC_KEY")
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
	b.transport = newTransport(b.verifyServer)
	b.state.Store("the build service has not answered yet, it may be compiling")
	return b, nil
}

// takeEnv returns the value of an environment variable and removes the variable.
func takeEnv(variable string) string {
	value := os.Getenv(variable)
	_ = os.Unsetenv(variable)
	return value
}

// execute fetches and executes the binary. It returns only if that fails, with a message and
// the exit code.
func (b *binary) execute(program []string, admin *net.TCPListener) (message string, code int) {
	if err := checkMemory(); err != nil {
		return "the binary cannot be executed from memory: set the sysctl vm.memfd_noexec below 2, " +
			"or compile the source in the pod (spec.build.strategy: InPod): " + err.Error(), exitNoExecution
	}
	ctx, release := signalContext()
	endWaiting := b.whileWaiting(admin)
	file, err := b.fetch(ctx)
	if err == nil {
		endWaiting(ctx)
	}
	release()
	switch {
	case ctx.Err() != nil:
		return "terminated before the program started: " + b.waitingFor(), exitTerminated
	case err != nil:
		return "no binary to execute: " + err.Error(), exitNoBinary
	}
	err = syscall.Exec(path(file), program, os.Environ())
	runtime.KeepAlive(file) // path contains only the number of its descriptor
	return "cannot execute the binary: " + err.Error(), exitNoExecution
}

// verify returns errForged unless the build service has signed a binary with this SHA-256.
func (b *binary) verify(hash []byte, signature string) error {
	message := b.key + "\n" + hex.EncodeToString(hash)
	signed, err := base64.RawURLEncoding.DecodeString(signature)
	if err != nil {
		return errForged
	}
	if ed25519.VerifyWithOptions(b.service, []byte(message), signed, &ed25519.Options{Context: "goless.io/binary/v1"}) != nil {
		return errForged
	}
	return nil
}
