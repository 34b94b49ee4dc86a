package modules

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"goless.io/builder/handler"
	"goless.io/builder/internal/toolchain"
)

// get adds what query names to the go.mod with this content.
func get(ctx context.Context, t *toolchain.Toolchain, dir, work string, data []byte, query string) error {
	if err := os.WriteFile(filepath.Join(dir, goMod), data, 0o644); err != nil {
		return fmt.Errorf("writing go.mod: %w", err)
	}
	_, lines, err := run(ctx, t, dir, work, "get", "--", query)
	if lines != nil {
		return fmt.Errorf("go get %s: %s", query, strings.TrimPrefix(strings.TrimSpace(strings.Join(lines, "\n")), "go: "))
	}
	if err != nil {
		return err
	}
	err = addSums(ctx, t, dir, work)
	if _, ok := errors.AsType[*handler.Error](err); ok {
		return nil // the source needs more modules, which are the next to get
	}
	return err
}
