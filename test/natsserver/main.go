// Command natsserver is a NATS server for the tests of triggers. Tests run it as a process, and
// the end-to-end tests run it in the cluster.
package main

import (
	"flag"
	"log"
	"os"

	"github.com/nats-io/nats-server/v2/server"
)

func main() {
	options, err := server.ConfigureOptions(flag.NewFlagSet("natsserver", flag.ExitOnError), os.Args[1:], func() {}, func() {}, func() {})
	if err != nil {
		log.Fatal(err)
	}
	s, err := server.NewServer(options)
	if err != nil {
		log.Fatal(err)
	}
	s.ConfigureLogger()
	if err := server.Run(s); err != nil {
		log.Fatal(err)
	}
	s.WaitForShutdown()
}
