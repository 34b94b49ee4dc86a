package buildservice

import (
	"runtime"
	"testing"

	"goless.io/builder/buildapi"
	"goless.io/builder/internal/toolchain"
)

// TestProcessors divides the processors between concurrent builds.
func TestProcessors(t *testing.T) {
	for _, c := range []struct{ processors, builds, want int }{{4, 3, 2}, {2, 3, 1}, {1, 1, 1}, {16, 4, 4}, {4, 1, 4}} {
		if got := processorsOfEach(c.processors, c.builds); got != c.want {
			t.Errorf("of %d processors, each of %d builds has %d, want %d", c.processors, c.builds, got, c.want)
		}
	}
	s := &Service{config: Config{Toolchain: &toolchain.Toolchain{}, Parallel: runtime.GOMAXPROCS(0)}}
	if got := s.builder(buildapi.Order{}).Toolchain.MaxProcessors(); got != 1 {
		t.Errorf("a build may use %d processors, want 1", got)
	}
}
