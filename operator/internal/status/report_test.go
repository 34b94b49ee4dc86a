package status_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"goless.io/operator/internal/status"
)

// The golden reports of the builder can be decoded.
func TestReportsOfTheBuilder(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "builder", "testdata", "report", "*.json"))
	if err != nil || len(files) < 8 {
		t.Fatalf("found %d golden reports of the builder, %v", len(files), err)
	}
	reasons := map[string]string{
		"built": "Built", "compile_failed": "CompileFailed", "truncated": "CompileFailed",
		"too_large": "CompileFailed", "invalid_source": "InvalidSource", "timeout": "BuildTimeout",
		"out_of_memory": "BuildOutOfMemory", "failed": "BuildFailed", "internal": "CompileFailed",
		"warnings": "Built", "many_warnings": "Built", "unvetted": "Built",
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			checkReport(t, file, reasons[name])
		})
	}
}

func checkReport(t *testing.T, file, reason string) {
	t.Helper()
	message, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(message) > 4096 {
		t.Errorf("%d bytes are more than the kubelet stores", len(message))
	}
	fn := function(1)
	code := int32(1)
	if reason == "Built" {
		code = 0
	}
	got := status.Of(fn, seen(deployment(1, 0, latest), nil, pod(latest, ended(code, string(message)))))
	if built := meta.FindStatusCondition(got.Conditions, "Built"); built.Reason != reason {
		t.Errorf("Built is %+v, want the reason %q", built, reason)
	}
	if got.Build == nil || got.Build.Revision != latest {
		t.Errorf("build is %+v", got.Build)
	}
	invariants(t, fn, got)
}
