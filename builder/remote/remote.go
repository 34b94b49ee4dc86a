// Package remote owns what the build service and those who ask it agree on: the
// orders and the answers, the keys that make them trustworthy, and the client of
// the operator. It refuses to know how a build is done, and how the pod that
// fetches a binary runs it.
//
// All trust comes from one seed that the operator and the service share. A pod
// knows a public key and a capability for one binary, and nothing else.
package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// The paths of the service. The key of a binary follows BinariesPath.
const (
	BuildsPath   = "/v1/builds"
	BinariesPath = "/v1/binaries/"
)

// SignatureHeader holds the signature of a binary, see Keys.Sign.
const SignatureHeader = "Goless-Signature"

// MaxOrder is the largest body of an order, in bytes: a source whose every
// character is escaped, and room for the rest.
const MaxOrder = 2 << 20

// maxSource is the size of the largest source of a Function, in characters.
const maxSource = 245760

// environment names the variables that an Order may set: how modules are reached.
var environment = []string{
	"GOPROXY", "GOPRIVATE", "GONOPROXY", "GONOSUMDB", "GOSUMDB",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
}

// namespace matches the names of namespaces.
var namespace = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)

// An Order asks for a binary. It is the body of a POST to BuildsPath.
type Order struct {
	// Namespace is that of the Function. Nothing that is built for one is ever
	// given to another.
	Namespace string `json:"namespace"`

	// Source is that of the Function.
	Source string `json:"source"`

	// Timeout is the longest time that the build may take, in JSON such as "60s".
	// 0 leaves it to the service, which has a ceiling too.
	Timeout time.Duration `json:"-"`

	// Memory is what the build may use, in bytes. 0 leaves it to the service,
	// which has a ceiling too.
	Memory int64 `json:"memory,omitempty"`

	// Environment says how modules are reached, by the variables of the go
	// command: GOPROXY, GOPRIVATE, GONOPROXY, GONOSUMDB, GOSUMDB, HTTP_PROXY,
	// HTTPS_PROXY and NO_PROXY.
	Environment map[string]string `json:"environment,omitempty"`
}

// plainOrder has the fields of an Order and not its methods.
type plainOrder Order

// wireOrder is an Order in JSON.
type wireOrder struct {
	plainOrder
	Timeout string `json:"timeout,omitempty"`
}

// MarshalJSON writes the Timeout as people do.
func (o Order) MarshalJSON() ([]byte, error) {
	wire := wireOrder{plainOrder: plainOrder(o)}
	if o.Timeout != 0 {
		wire.Timeout = o.Timeout.String()
	}
	return json.Marshal(wire)
}

// UnmarshalJSON reads what MarshalJSON has written.
func (o *Order) UnmarshalJSON(data []byte) error {
	var wire wireOrder
	if err := json.Unmarshal(data, &wire); err != nil {
		return err
	}
	*o = Order(wire.plainOrder)
	if wire.Timeout == "" {
		return nil
	}
	var err error
	o.Timeout, err = time.ParseDuration(wire.Timeout)
	return err
}

// Validate says what is wrong with an order, whoever has sent it.
func (o Order) Validate() error {
	switch length := utf8.RuneCountInString(o.Source); {
	case !namespace.MatchString(o.Namespace):
		return errors.New("the namespace must be a DNS label")
	case length == 0 || length > maxSource:
		return fmt.Errorf("the source must have 1 to %d characters, and has %d", maxSource, length)
	case o.Timeout < 0 || o.Memory < 0:
		return errors.New("timeout and memory must not be negative")
	}
	for name, value := range o.Environment {
		if !slices.Contains(environment, name) || strings.ContainsRune(value, 0) {
			return fmt.Errorf("the environment may set %s, and not %q", strings.Join(environment, ", "), name)
		}
	}
	return nil
}

// An Event is one line of the answer to an Order. The first has the Key alone, the
// last has the Report.
type Event struct {
	// Key identifies the binary: the source, the namespace, and everything else
	// that decides about its content.
	Key string `json:"key"`

	// Compiled says that the source compiles and that the binary is about to be
	// complete. Only builds that know in time say so.
	Compiled bool `json:"compiled,omitempty"`

	// Report is how the build ended: the same JSON as the termination message of
	// a container that builds.
	Report json.RawMessage `json:"report,omitempty"`
}
