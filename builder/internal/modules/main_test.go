package modules

import (
	"os"
	"testing"

	"goless.io/builder/internal/compile"
)

// scratch is a directory that several tests share.
var scratch string

func TestMain(m *testing.M) {
	compile.EnterSandbox()
	dir, err := os.MkdirTemp("", "goless-modules-")
	if err != nil {
		panic(err)
	}
	scratch = dir
	code := m.Run()
	_ = os.RemoveAll(dir) // in the temporary directory
	os.Exit(code)
}
