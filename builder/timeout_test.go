package builder

import (
	"testing"
	"time"

	"goless.io/builder/internal/toolchain"
)

// Where the standard library may not be compiled yet, a build takes long.
func TestTimeout(t *testing.T) {
	for name, c := range map[string]struct {
		builder Builder
		want    time.Duration
	}{
		"Image":   {Builder{Toolchain: &toolchain.Toolchain{Sealed: true}}, DefaultTimeout},
		"Machine": {Builder{Toolchain: &toolchain.Toolchain{}}, SlowTimeout},
		"Chosen":  {Builder{Toolchain: &toolchain.Toolchain{}, Timeout: time.Second}, time.Second},
	} {
		if got := c.builder.MaxDuration(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
