package compile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"goless.io/builder/internal/sandbox"
)

// commandsMode is the name of runCommands as a sandbox.Mode.
const commandsMode = "commands"

// lastCommand is the line that runCommands writes before it executes the last command.
const lastCommand = "last command"

// runCommands is a sandbox.Mode. It reads commands as JSON and executes them in order until one
// fails.
func runCommands(stdin io.Reader, stdout io.Writer) error {
	var commands [][]string
	if err := json.NewDecoder(stdin).Decode(&commands); err != nil {
		return fmt.Errorf("reading the commands: %w", err)
	}
	for i, command := range commands {
		if i == len(commands)-1 {
			fmt.Fprintln(stdout, lastCommand)
		}
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Stderr = os.Stderr
		cmd.SysProcAttr = sandbox.EndWithParent(&syscall.SysProcAttr{})
		if err := cmd.Run(); err != nil {
			fmt.Fprintln(os.Stderr, err) // names the signal if one has ended the command
			return err
		}
	}
	return nil
}

// A progress reads the output of runCommands.
type progress struct {
	last func() // called once, before the last command
}

// Write never fails.
func (p *progress) Write(output []byte) (int, error) {
	if p.last != nil && bytes.Contains(output, []byte(lastCommand)) {
		p.last()
		p.last = nil
	}
	return len(output), nil
}
