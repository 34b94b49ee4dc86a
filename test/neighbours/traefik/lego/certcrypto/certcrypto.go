// Package certcrypto is a stub of github.com/go-acme/lego/v5/certcrypto, so that Traefik
// compiles without it. It contains the types of keys.
package certcrypto

// KeyType is the type of a key.
type KeyType string

// The types of keys.
const (
	EC256   KeyType = "EC256"
	EC384   KeyType = "EC384"
	RSA2048 KeyType = "RSA2048"
	RSA4096 KeyType = "RSA4096"
	RSA8192 KeyType = "RSA8192"
)
