// Command kodata fills the directory that ko puts into the builder's image: a
// pinned Go toolchain, the modules that the runtime needs, and a build cache that
// holds the runtime and everything a function may import. It owns what is in
// that directory, and refuses to know what an image is.
//
// The cache is made by the code that builds functions, with the same toolchain,
// flags and environment: an entry is only found by a build that would have made
// the very same one.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"

	"goless.io/builder/internal/gotool"
	"goless.io/builder/internal/program"
)

// layout changes whenever this command puts other things into the directory.
const layout = "4"

func main() {
	gotool.EnterSandbox()
	log.SetFlags(0)
	log.SetPrefix("kodata: ")
	if len(os.Args) != 2 {
		log.Fatal("usage: kodata DIRECTORY")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1]); err != nil {
		log.Fatal(err) //nolint:gocritic // stop has nothing to do at the end
	}
}

// run makes dir, unless it is there already and made of the same things.
func run(ctx context.Context, dir string) error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("filling %s: the toolchain of the image is for linux, and runs on nothing else", dir)
	}
	key := fmt.Sprintln(layout, gotool.Pinned, runtime.GOARCH, gotool.Recipe(), program.Fingerprint())
	if isCurrent(dir, key) {
		log.Printf("%s is up to date", dir)
		return nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	unfinished := dir + ".unfinished"
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	if err := begin(unfinished); err != nil {
		return err
	}
	if err := fill(ctx, unfinished); err != nil {
		return fmt.Errorf("filling %s: %w", dir, err)
	}
	if err := os.WriteFile(filepath.Join(unfinished, "KEY"), []byte(key), 0o444); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(unfinished, dir)
}

// begin makes dir a module of its own: patterns like ./... would otherwise find
// the Go files that will be in it.
func begin(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module kodata\n"), 0o444)
}

// isCurrent tells whether dir is what key stands for, and nobody has taken a part
// of it away.
func isCurrent(dir, key string) bool {
	have, err := os.ReadFile(filepath.Join(dir, "KEY"))
	if err != nil || string(have) != key {
		return false
	}
	for _, part := range []string{"go", "mod", "cache"} {
		if _, err := os.Stat(filepath.Join(dir, part)); err != nil {
			return false
		}
	}
	return true
}
