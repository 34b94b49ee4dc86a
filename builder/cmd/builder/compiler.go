package main

import (
	"context"

	"goless.io/builder"
	"goless.io/builder/internal/manifest"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/toolchain"
)

// compiler is the base of commands that need the program around a Function, but not its binary.
type compiler struct {
	diagnostics
	environ []string
}

// with calls use with the program of a Function, see Builder.WithProgram.
func (c *compiler) with(ctx context.Context, function *manifest.Function, use func(*toolchain.Toolchain, *program.Program) error) error {
	tools, err := toolchain.Find(ctx, c.environ)
	if err != nil {
		return err
	}
	maker := &builder.Builder{Toolchain: tools, Timeout: builder.SlowTimeout, Progress: c.err}
	return maker.WithProgram(ctx, function.Source, use)
}
