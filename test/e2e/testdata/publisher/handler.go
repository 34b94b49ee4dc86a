// Package shop has what the function shop of docs/how-to/streams.md imports, so that the tests'
// module proxy has it.
package shop

import (
	_ "github.com/nats-io/nats.go"
	_ "github.com/nats-io/nats.go/jetstream"
)
