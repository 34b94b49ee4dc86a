package compile

import (
	"goless.io/builder/internal/gocache"
	"goless.io/builder/internal/sandbox"
)

// EnterSandbox calls gocache.Enter and sandbox.Enter. Programs that use this package must call it
// first in main.
func EnterSandbox() {
	gocache.Enter()
	sandbox.Enter(map[string]sandbox.Mode{commandsMode: runCommands})
}
