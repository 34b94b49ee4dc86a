package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestExamples checks that each command has examples, and that it accepts their arguments.
func TestExamples(t *testing.T) {
	root := newRoot(streams{}, nil)
	for _, command := range append(root.Commands(), root) {
		if command.Name() == "help" || command.Name() == "completion" {
			continue // commands of cobra
		}
		t.Run(command.Name(), func(t *testing.T) {
			if command.HasParent() && !ownCall.MatchString("builder "+command.Name()) {
				t.Error("name.go does not know it")
			}
			checkExamples(t, root, command)
		})
	}
}

func checkExamples(t *testing.T, root, command *cobra.Command) {
	t.Helper()
	calls := 0
	for line := range strings.Lines(command.Example) {
		if call := words(line); call != nil {
			calls++
			check(t, root, call)
		}
	}
	if calls == 0 || command.Short == "" {
		t.Error("it has no example, or says nothing of itself")
	}
}

// words returns the arguments of the builder in a line of an example.
func words(line string) []string {
	_, call, ok := strings.Cut(line, "builder ")
	if !ok || strings.HasPrefix(strings.TrimSpace(line), "#") {
		return nil
	}
	for _, end := range []string{" && ", " | ", " > ", " < "} {
		call, _, _ = strings.Cut(call, end)
	}
	return strings.Fields(call)
}

func check(t *testing.T, root *cobra.Command, call []string) {
	t.Helper()
	command, args, err := root.Find(asFlags(call))
	if err == nil {
		err = command.ParseFlags(args)
	}
	if err == nil {
		err = command.ValidateArgs(command.Flags().Args())
	}
	if err != nil {
		t.Errorf("builder %s: %v", strings.Join(call, " "), err)
	}
}
