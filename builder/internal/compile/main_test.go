package compile

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	EnterSandbox()
	os.Exit(m.Run())
}
