// Command modproxy is a module proxy for tests on a cluster: it serves the
// modules that the go.mod files of some directories pin, and ones made up from
// txtar archives. It owns its flags, and refuses to know who asks.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"

	"goless.io/builder/internal/modproxy"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("modproxy: ")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err) //nolint:gocritic // stop has nothing to do at the end
	}
}

// run serves until ctx ends. It prints the address on a line once it listens, and
// then each path that is asked for.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("modproxy", flag.ContinueOnError)
	address := flags.String("listen", "127.0.0.1:0", "listen on this `address`")
	certificate := flags.String("cert", "", "serve TLS with the certificate in this PEM `file`")
	key := flags.String("key", "", "the key of the certificate, a PEM `file`")
	user := flags.String("user", "", "ask for this `name:password`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	proxy := &modproxy.Proxy{Log: stdout}
	proxy.User, proxy.Password, _ = strings.Cut(*user, ":")
	for _, arg := range flags.Args() {
		if err := add(ctx, proxy, arg); err != nil {
			return err
		}
	}
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, listener.Addr())
	server := &http.Server{Handler: proxy}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })() // the listener's error counts
	if *certificate != "" {
		return server.ServeTLS(listener, *certificate, *key)
	}
	return server.Serve(listener)
}

// add adds the modules that a directory pins, or the one that PATH@VERSION=FILE
// makes up.
func add(ctx context.Context, proxy *modproxy.Proxy, arg string) error {
	name, file, madeUp := strings.Cut(arg, "=")
	if !madeUp {
		return proxy.AddPinned(ctx, arg)
	}
	path, version, ok := strings.Cut(name, "@")
	if !ok {
		return fmt.Errorf("%s is neither a directory nor PATH@VERSION=FILE", arg)
	}
	archive, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return proxy.Add(path, version, archive)
}
