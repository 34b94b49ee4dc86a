package main

import (
	"context"
	"fmt"
	"os"

	"goless.io/builder"
	"goless.io/builder/handler"
	"goless.io/builder/internal/gotool"
	"goless.io/builder/internal/input"
	"goless.io/builder/internal/program"
)

// A compiler is what commands have that need the program around a Function, but
// not its binary.
type compiler struct {
	diagnostics
	environ []string
}

// with calls use with the program of a Function, which is complete but for being
// compiled, and removes it afterwards.
func (c *compiler) with(ctx context.Context, function *input.Function, use func(*gotool.Toolchain, *program.Program) error) error {
	parsed, err := handler.Parse(handler.Filename, function.Source)
	if err != nil {
		return err
	}
	toolchain, err := gotool.Find(ctx, c.environ)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "goless-program-")
	if err != nil {
		return fmt.Errorf("making a directory for the program: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is below the temporary directory
	written, err := program.Write(dir, parsed)
	if err != nil {
		return err
	}
	if err := toolchain.Fetch(ctx, gotool.Fetch{Program: written, Timeout: builder.SlowTimeout}); err != nil {
		return err
	}
	return use(toolchain, written)
}
