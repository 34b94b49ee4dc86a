// Package buildapi implements the protocol of the build service: orders (requests to build one
// source) and the events of their builds, keys and tokens, and the client that the operator uses.
// The service itself is in package buildservice.
//
// All keys are derived from one seed that the operator and the service share. A pod has only the
// public key and a capability, the token for one binary.
package buildapi

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

// The paths of the service. BinariesPath is followed by the key of a binary.
const (
	BuildsPath   = "/v1/builds"
	BinariesPath = "/v1/binaries/"
)

// SignatureHeader is the header that contains the signature of a binary. See Keys.Sign.
const SignatureHeader = "Goless-Signature"

// MaxOrder is the maximum size of the body of an order, in bytes. It is sufficient for the largest
// source with every character escaped.
const MaxOrder = 2 << 20

// environment lists the variables that an Order may set.
var environment = []string{
	"GOPROXY", "GOPRIVATE", "GONOPROXY", "GONOSUMDB", "GOSUMDB",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
}

// namespace matches the names of namespaces.
var namespace = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)

// Order requests a binary. It is the body of a POST to BuildsPath.
type Order struct {
	// Namespace is the namespace of the Function. A binary that was built for one namespace is
	// never served to another.
	Namespace string `json:"namespace"`

	// Source is the source of the Function. An order with a Key may omit it.
	Source string `json:"source,omitempty"`

	// Key is the key of the expected binary. With a Source, it is set only if one replica of the
	// service forwards an order to another. The other replica builds the binary itself, and rejects
	// the order if the key of its binary would differ.
	//
	// Without a Source, the response is the result of an earlier build. The status is 404 if the
	// replica has no result for the key, and 400 in releases before 0.2. The client then sends the
	// Source. See Unknown.
	Key string `json:"key,omitempty"`

	// Timeout limits the duration of the build, in JSON in nanoseconds. 0 means the default of the
	// service. The service also enforces a maximum.
	Timeout time.Duration `json:"timeout,omitempty"`

	// Memory limits the memory of the build, in bytes. 0 means the default of the service. The
	// service also enforces a maximum.
	Memory int64 `json:"memory,omitempty"`

	// Environment sets variables of the go command that configure where modules are fetched from:
	// GOPROXY, GOPRIVATE, GONOPROXY, GONOSUMDB, GOSUMDB, HTTP_PROXY, HTTPS_PROXY and NO_PROXY. A
	// binary that was built with one environment is never served for an order with another.
	Environment map[string]string `json:"environment,omitempty"`

	// Tests requests the compiled tests of the source instead of the function: a binary that runs
	// the tests of all its packages. The service itself never runs tests. The key of that binary differs from that
	// of the function. Releases before 0.2 ignore this field, so Client.Build verifies Event.Tests.
	Tests bool `json:"tests,omitempty"`
}

// Validate returns an error that describes why an order is invalid.
func (o Order) Validate() error {
	switch length := utf8.RuneCountInString(o.Source); {
	case !namespace.MatchString(o.Namespace):
		return errors.New("the namespace must be a DNS label")
	case length == 0 && o.Key == "" || length > handler.MaxCharacters:
		return fmt.Errorf("the source must have 1 to %d characters, and has %d", handler.MaxCharacters, length)
	case o.Timeout < 0 || o.Memory < 0:
		return errors.New("timeout and memory must not be negative")
	}
	for name, value := range o.Environment {
		if !slices.Contains(environment, name) || strings.ContainsRune(value, 0) {
			return fmt.Errorf("the environment may set %s, and not %q", strings.Join(environment, ", "), name)
		}
		if HasFileURL(value) {
			return fmt.Errorf("%s must not be a file: URL, because the service would let sources read its files: %q", name, value)
		}
	}
	return nil
}

// HasFileURL reports whether one of the servers in the value of a variable such as GOPROXY is a
// file: URL. Orders must not contain file: URLs.
func HasFileURL(value string) bool {
	servers := strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(",| ", r) })
	return slices.ContainsFunc(servers, func(server string) bool {
		u, err := url.Parse(server)
		return err == nil && u.Scheme == "file"
	})
}

// Event is one line of the response to an Order. The first event contains only the Key, and Tests
// if the order set it. Waiting and Begun events may follow. The last event contains the Report or
// is Dropped.
type Event struct {
	// Key identifies the binary. It depends on the source, the namespace, and everything else that
	// determines the content of the binary.
	Key string `json:"key"`

	// Waiting means that the build is queued. The next event follows when it starts or is dropped.
	Waiting bool `json:"waiting,omitempty"`

	// Begun means that the build has started. Releases before 0.2 do not set it.
	Begun bool `json:"begun,omitempty"`

	// Dropped means that the build was removed from the queue because too many builds are waiting.
	// Client.Build returns ErrBusy for it.
	Dropped bool `json:"dropped,omitempty"`

	// Tests means that the binary contains the tests of the source, because the order set
	// Order.Tests. It is set in all events of such an order.
	Tests bool `json:"tests,omitempty"`

	// Report is the outcome of the build, in the JSON format of the termination message of a build
	// container.
	Report json.RawMessage `json:"report,omitempty"`
}
