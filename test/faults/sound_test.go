package faults

import (
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"goless.io/test/faults/plane"
)

// TestUnsound tests programs with panics and data races.
func TestUnsound(t *testing.T) {
	if !plane.Racing() {
		t.Skip("gcc is not installed, which the race detector requires")
	}
	info, err := buildinfo.ReadFile(*operator)
	if err != nil {
		t.Fatal(err)
	}
	raced := false
	for _, setting := range info.Settings {
		raced = raced || setting.Key == "-race" && setting.Value == "true"
	}
	if !raced {
		t.Error("the operator under test is built without the race detector")
	}
	for name, body := range map[string]string{
		"Race":  "n, done := 0, make(chan bool)\n\tgo func() { n++; done <- true }()\n\tn++\n\t<-done",
		"Panic": "panic(1)",
		"Sound": "println(1)",
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "main.go")
			if err := os.WriteFile(file, []byte("package main\n\nfunc main() {\n\t"+body+"\n}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), "go", "run", "-race", file).CombinedOutput()
			if wrong := name != "Sound"; unsound.Match(out) != wrong || (err != nil) != wrong {
				t.Errorf("found an error in the output: %t, want %t: %v\n%s", !wrong, wrong, err, out)
			}
		})
	}
}
