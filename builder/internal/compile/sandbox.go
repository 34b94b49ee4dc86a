package compile

import (
	"goless.io/builder/internal/gocache"
	"goless.io/builder/internal/sandbox"
)

// EnterSandbox is sandbox.Enter and gocache.Enter for programs that call this package. It
// must be the first call in main.
func EnterSandbox() {
	gocache.Enter()
	sandbox.Enter(map[string]sandbox.Mode{commandsMode: runCommands})
}
