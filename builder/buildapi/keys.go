package buildapi

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
)

// SeedSize is the length of a seed, in bytes.
const SeedSize = 32

// signing is the context of binary signatures, which separates them from signatures for other
// purposes.
var signing = &ed25519.Options{Context: "goless.io/binary/v1"}

// encoding is the encoding of all tokens, keys and signatures.
var encoding = base64.RawURLEncoding

// ErrSignature means that a binary is not the one that the service built for the key.
var ErrSignature = errors.New("invalid signature: the binary was not built by this build service for this key")

// Keys contains all keys that are derived from a seed. They authorize their holder to request
// builds, and to fetch and sign binaries.
type Keys struct {
	private    ed25519.PrivateKey
	token      string
	capability []byte
}

// NewKeys derives the keys from a seed of SeedSize random bytes.
func NewKeys(seed []byte) (*Keys, error) {
	if len(seed) != SeedSize {
		return nil, fmt.Errorf("the seed has %d bytes and must have %d random ones", len(seed), SeedSize)
	}
	derived := map[string][]byte{}
	for _, purpose := range []string{"signature", "token", "capability"} {
		key, err := hkdf.Key(sha256.New, seed, nil, "goless.io/build/v1 "+purpose, sha256.Size)
		if err != nil {
			return nil, fmt.Errorf("deriving keys: %w", err)
		}
		derived[purpose] = key
	}
	return &Keys{
		private:    ed25519.NewKeyFromSeed(derived["signature"]),
		token:      encoding.EncodeToString(derived["token"]),
		capability: derived["capability"],
	}, nil
}

// Public returns the public key for verifying binaries, in base64. Pods use it.
func (k *Keys) Public() string {
	return encoding.EncodeToString(k.private.Public().(ed25519.PublicKey))
}

// Token returns the bearer token for ordering builds.
func (k *Keys) Token() string { return k.token }

// Capability returns the bearer token for fetching the binary with this key, and no other binary.
func (k *Keys) Capability(key string) string {
	mac := hmac.New(sha256.New, k.capability)
	mac.Write([]byte(key))
	return encoding.EncodeToString(mac.Sum(nil))
}

// Sign returns the signature of the binary with this key and this SHA-256 of its content.
func (k *Keys) Sign(key string, content [sha256.Size]byte) string {
	signature, err := k.private.Sign(nil, signed(key, content), signing)
	if err != nil {
		panic(err) // only invalid options cause an error
	}
	return encoding.EncodeToString(signature)
}

// Verify returns ErrSignature unless signature was returned by Sign for the same arguments.
func (k *Keys) Verify(key string, content [sha256.Size]byte, signature string) error {
	decoded, err := encoding.DecodeString(signature)
	if err != nil || ed25519.VerifyWithOptions(k.private.Public().(ed25519.PublicKey), signed(key, content), decoded, signing) != nil {
		return ErrSignature
	}
	return nil
}

func signed(key string, content [sha256.Size]byte) []byte {
	return []byte(key + "\n" + hex.EncodeToString(content[:]))
}
