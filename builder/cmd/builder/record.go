package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"time"

	"goless.io/builder"
)

// A record beside a binary says from what it was built, or why it was not. The
// kubelet starts a failed init container again and again, and a restarted pod
// builds again what it has: both find the answer here.
type record struct {
	// Key identifies the source and all that decides its outcome.
	Key string `json:"key"`

	Report   builder.Report `json:"report"`
	ExitCode int            `json:"exitCode"`
}

// exitBuilder is the exit code with --report when the source is not at fault.
const exitBuilder = 20

// newRecord describes how a build ended, see builder.NewReport.
func newRecord(b *builder.Builder, key string, took time.Duration, err error) record {
	r := record{Key: key, Report: builder.NewReport(b, took, err)}
	switch r.Report.Reason {
	case builder.Built:
	case builder.CompileFailed:
		r.ExitCode = 10
		if source, ok := errors.AsType[*builder.SourceError](err); ok && source.TooLarge() {
			r.ExitCode = 14
		}
	case builder.BuildTimeout:
		r.ExitCode = 11
	case builder.BuildOutOfMemory:
		r.ExitCode = 12
	case builder.InvalidSource:
		r.ExitCode = 13
	default:
		r.ExitCode = exitBuilder
	}
	return r
}

func recordKey(b *builder.Builder, source []byte) string {
	key := sha256.Sum256(append([]byte(b.Fingerprint()+"\n"), source...))
	return hex.EncodeToString(key[:])
}

func recordFile(binary string) string { return binary + ".json" }

// recall returns the record of the last build of binary, if it was for key and
// the binary is still there. A record that cannot be read is none.
func recall(binary, key string) (record, bool) {
	var r record
	data, err := os.ReadFile(recordFile(binary))
	if err != nil || json.Unmarshal(data, &r) != nil || r.Key != key {
		return record{}, false
	}
	if r.Report.Reason == builder.Built {
		_, err = os.Stat(binary)
	}
	return r, err == nil
}

// remember writes r when building again would end in the same way: what the
// machine had a part in may be better next time.
func (r record) remember(binary string) error {
	switch r.Report.Reason {
	case builder.Built, builder.InvalidSource, builder.CompileFailed:
		data, err := json.Marshal(r)
		if err != nil {
			return err
		}
		return os.WriteFile(recordFile(binary), data, 0o644)
	default:
		if err := os.Remove(recordFile(binary)); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
}
