package buildapi_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"testing"

	"goless.io/builder/buildapi"
)

func newKeys(t *testing.T, first byte) *buildapi.Keys {
	t.Helper()
	seed := bytes.Repeat([]byte{1}, buildapi.SeedSize)
	seed[0] = first
	keys, err := buildapi.NewKeys(seed)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// TestKeysStay checks that the keys derived from a seed never change, because the operator and the
// service may have different versions.
func TestKeysStay(t *testing.T) {
	keys := newKeys(t, 1)
	sum := sha256.Sum256([]byte("content"))
	for what, c := range map[string]struct{ got, want string }{
		"Public":     {keys.Public(), "HKClaWI3jc3P7DI0SQ3ZZVLcJyBoV-vPEMHUBNTk-UM"},
		"Token":      {keys.Token(), "HpWu5TgErwU4zvMZ8dUf6Vv4YrWJiuunHeb9UFeH0Fo"},
		"Capability": {keys.Capability("key"), "YFKK62CamuRIuFvpK3W5ySrkZCP6_ZXSSicdR9XQENc"},
		"Signature":  {keys.Sign("key", sum), "YqxQJkq95Be2PCTs1t4DTzYY835jXKGTQmfnmXbkypI2l0XcwBoD18mqP2f6KNhPPNOYAmEVl-AoOCzTyZBpBQ"},
	} {
		if c.got != c.want {
			t.Errorf("%s is %s, want %s", what, c.got, c.want)
		}
	}
}

// TestPodVerifies verifies a signature as a pod does, with only the public key.
func TestPodVerifies(t *testing.T) {
	keys := newKeys(t, 1)
	public, err := base64.RawURLEncoding.DecodeString(keys.Public())
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("content"))
	signature, err := base64.RawURLEncoding.DecodeString(keys.Sign("key", sum))
	if err != nil {
		t.Fatal(err)
	}
	message := []byte("key\n" + hex.EncodeToString(sum[:]))
	if err := ed25519.VerifyWithOptions(public, message, signature, &ed25519.Options{Context: "goless.io/binary/v1"}); err != nil {
		t.Error(err)
	}
}

func TestVerify(t *testing.T) {
	keys, others := newKeys(t, 1), newKeys(t, 2)
	sum, other := sha256.Sum256([]byte("content")), sha256.Sum256([]byte("other"))
	signature := keys.Sign("key", sum)
	if err := keys.Verify("key", sum, signature); err != nil {
		t.Error(err)
	}
	for name, err := range map[string]error{
		"OtherKey":     keys.Verify("kez", sum, signature),
		"OtherContent": keys.Verify("key", other, signature),
		"OtherSeed":    others.Verify("key", sum, signature),
		"Short":        keys.Verify("key", sum, signature[:len(signature)-4]),
		"NotBase64":    keys.Verify("key", sum, "%"),
		"Empty":        keys.Verify("key", sum, ""),
	} {
		if !errors.Is(err, buildapi.ErrSignature) {
			t.Errorf("%s: %v, want ErrSignature", name, err)
		}
	}
}

func TestKeysDiffer(t *testing.T) {
	keys, others := newKeys(t, 1), newKeys(t, 2)
	seen := map[string]string{}
	for what, value := range map[string]string{
		"Public":              keys.Public(),
		"Token":               keys.Token(),
		"Capability":          keys.Capability("key"),
		"Capability of other": keys.Capability("other"),
		"other Public":        others.Public(),
		"other Token":         others.Token(),
		"other Capability":    others.Capability("key"),
	} {
		if before, ok := seen[value]; ok {
			t.Errorf("%s is the same as %s", what, before)
		}
		seen[value] = what
	}
}

func TestSeedOfWrongSize(t *testing.T) {
	for _, size := range []int{0, 31, 33} {
		if _, err := buildapi.NewKeys(make([]byte, size)); err == nil {
			t.Errorf("NewKeys accepts %d bytes", size)
		}
	}
}
