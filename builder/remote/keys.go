package remote

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

// signing separates signatures of binaries from all others.
var signing = &ed25519.Options{Context: "goless.io/binary/v1"}

// encoding is that of all tokens, keys and signatures.
var encoding = base64.RawURLEncoding

// ErrSignature says that a binary is not what the service has built for the key.
var ErrSignature = errors.New("the signature is wrong: this is not what the build service has built")

// Keys are everything that follows from a seed. Whoever has them can order
// builds, fetch binaries, and sign them.
type Keys struct {
	private    ed25519.PrivateKey
	token      string
	capability []byte
}

// NewKeys derives the keys. A seed is SeedSize random bytes.
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

// Private signs binaries, and is the key of the service's certificate.
func (k *Keys) Private() ed25519.PrivateKey { return k.private }

// Public is what a pod knows of Private, in base64.
func (k *Keys) Public() string {
	return encoding.EncodeToString(k.private.Public().(ed25519.PublicKey))
}

// Token is the bearer token that orders builds.
func (k *Keys) Token() string { return k.token }

// Capability is the bearer token that fetches the binary with this key, and no
// other.
func (k *Keys) Capability(key string) string {
	mac := hmac.New(sha256.New, k.capability)
	mac.Write([]byte(key))
	return encoding.EncodeToString(mac.Sum(nil))
}

// Sign vouches for the binary with this key, whose content has this hash.
func (k *Keys) Sign(key string, content [sha256.Size]byte) string {
	signature, err := k.private.Sign(nil, signed(key, content), signing)
	if err != nil {
		panic(err) // it is deterministic, and the options are right
	}
	return encoding.EncodeToString(signature)
}

// Verify returns ErrSignature unless the signature is that of Sign.
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
