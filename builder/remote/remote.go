// Package remote is the protocol of the build service: orders and their answers, the keys
// and tokens, and the client that the operator uses. It does not know how to build, or
// how a pod executes the binary that it fetches.
//
// All keys are derived from one seed that the operator and the service share. A pod knows
// only the public key, and a capability, the token for one binary.
package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"goless.io/builder/handler"
)

// The paths of the service. The key of a binary follows BinariesPath.
const (
	BuildsPath   = "/v1/builds"
	BinariesPath = "/v1/binaries/"
)

// SignatureHeader is the header with the signature of a binary. See Keys.Sign.
const SignatureHeader = "Goless-Signature"

// MaxOrder is the largest body of an order, in bytes. It suffices for the largest source
// with every character escaped.
const MaxOrder = 2 << 20

// environment are the names of the variables that an Order may set.
var environment = []string{
	"GOPROXY", "GOPRIVATE", "GONOPROXY", "GONOSUMDB", "GOSUMDB",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
}

// namespace matches the names of namespaces.
var namespace = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)

// An Order asks for a binary. It is the body of a POST to BuildsPath.
type Order struct {
	// Namespace is that of the Function. A binary that is built for one namespace is
	// never given to another.
	Namespace string `json:"namespace"`

	// Source is that of the Function.
	Source string `json:"source"`

	// Key is set where one replica of the service passes an order on to another: the key
	// of the binary that it expects. The other replica builds by itself, or refuses the
	// order if it would build a binary with another key.
	Key string `json:"key,omitempty"`

	// Timeout is the longest time that the build may take, in JSON in nanoseconds. 0
	// means the default of the service, which also has a maximum.
	Timeout time.Duration `json:"timeout,omitempty"`

	// Memory is what the build may use, in bytes. 0 means the default of the service,
	// which also has a maximum.
	Memory int64 `json:"memory,omitempty"`

	// Environment says where to fetch modules, by variables of the go command: GOPROXY,
	// GOPRIVATE, GONOPROXY, GONOSUMDB, GOSUMDB, HTTP_PROXY, HTTPS_PROXY and NO_PROXY. A binary
	// that is built with one environment is never given for an order with another.
	Environment map[string]string `json:"environment,omitempty"`
}

// Validate returns an error that says what is wrong with an order.
func (o Order) Validate() error {
	switch length := utf8.RuneCountInString(o.Source); {
	case !namespace.MatchString(o.Namespace):
		return errors.New("the namespace must be a DNS label")
	case length == 0 || length > handler.MaxCharacters:
		return fmt.Errorf("the source must have 1 to %d characters, and has %d", handler.MaxCharacters, length)
	case o.Timeout < 0 || o.Memory < 0:
		return errors.New("timeout and memory must not be negative")
	}
	for name, value := range o.Environment {
		if !slices.Contains(environment, name) || strings.ContainsRune(value, 0) {
			return fmt.Errorf("the environment may set %s, and not %q", strings.Join(environment, ", "), name)
		}
		if NamesFile(value) {
			return fmt.Errorf("%s must not be a file: URL, because the service would let sources read its files: %q", name, value)
		}
	}
	return nil
}

// NamesFile reports whether one of the servers in the value of a variable, such as GOPROXY,
// is a file: URL. No order may have one.
func NamesFile(value string) bool {
	servers := strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(",| ", r) })
	return slices.ContainsFunc(servers, func(server string) bool {
		u, err := url.Parse(server)
		return err == nil && u.Scheme == "file"
	})
}

// An Event is one line of the answer to an Order. The first has the Key alone, and the
// last has the Report, or is Dropped.
type Event struct {
	// Key identifies the binary: the source, the namespace, and everything else
	// that decides about its content.
	Key string `json:"key"`

	// Waiting says that the build waits for its turn. The next event comes when it has
	// begun.
	Waiting bool `json:"waiting,omitempty"`

	// Dropped says that the build had to leave the queue because too many builds wait. The
	// Build of a Client returns ErrBusy for it.
	Dropped bool `json:"dropped,omitempty"`

	// Report is how the build ended: the same JSON as the termination message of
	// a container that builds.
	Report json.RawMessage `json:"report,omitempty"`
}
