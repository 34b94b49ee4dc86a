// Package shop contains the imports of the function shop in docs/how-to/streams.md, so that the
// module proxy of the tests has them.
package shop

import (
	_ "github.com/nats-io/nats.go"
	_ "github.com/nats-io/nats.go/jetstream"
)
