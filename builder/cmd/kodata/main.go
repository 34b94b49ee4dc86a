// Command kodata fills the directory that ko includes in the builder's image: a pinned Go
// toolchain, the modules that the runtime needs, a build cache with the runtime and everything that
// a function without a go.mod can import, and plan.json, with which the builder compiles without
// the go command.
//
// The cache is created by the code that builds functions, because its entries match only if all
// inputs of a build are equal: the toolchain, the flags and the environment. For an image of
// another architecture, the pinned toolchain runs on this machine and cross-compiles the toolchain
// and the cache of the image.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"

	"goless.io/builder/internal/compile"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/toolchain"
)

// layout must be changed whenever this command changes the contents of the directory.
const layout = "8"

func main() {
	compile.EnterSandbox()
	log.SetFlags(0)
	log.SetPrefix("kodata: ")
	arch := flag.String("arch", runtime.GOARCH, "`architecture` to fill the directory for; files of other architectures are kept")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("usage: kodata [-arch ARCHITECTURE] DIRECTORY")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, flag.Arg(0), *arch); err != nil {
		log.Fatal(err) //nolint:gocritic // stop has nothing to do at the end
	}
}

// run creates dir, unless it exists and was created from the same inputs.
func run(ctx context.Context, dir, arch string) error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("filling %s: the toolchain of the image is for linux, and runs on nothing else", dir)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := switchArchitecture(dir, arch); err != nil {
		return err
	}
	key := fmt.Sprintln(layout, toolchain.Pinned, arch, compile.Fingerprint(), program.Fingerprint())
	if isCurrent(dir, key) {
		log.Printf("%s is up to date", dir)
		return nil
	}
	unfinished := dir + ".unfinished"
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	if err := makeModule(unfinished); err != nil {
		return err
	}
	if err := fill(ctx, unfinished, arch); err != nil {
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

// switchArchitecture moves dir aside if it is for another architecture, and restores the directory
// for arch if one was moved aside before.
func switchArchitecture(dir, arch string) error {
	key, err := os.ReadFile(filepath.Join(dir, "KEY"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	was := strings.Fields(string(key))
	if len(was) < 3 || was[2] == arch {
		return nil
	}
	aside := dir + "." + was[2]
	if err := os.RemoveAll(aside); err != nil {
		return err
	}
	if err := os.Rename(dir, aside); err != nil {
		return err
	}
	if err := os.Rename(dir+"."+arch, dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// makeModule makes dir a module, so that patterns such as ./... do not match the Go files in it.
func makeModule(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module kodata\n"), 0o444)
}

// isCurrent reports whether dir was created with key and is complete.
func isCurrent(dir, key string) bool {
	have, err := os.ReadFile(filepath.Join(dir, "KEY"))
	if err != nil || string(have) != key {
		return false
	}
	for _, part := range []string{"go", "mod", "cache", "plan.json"} {
		if _, err := os.Stat(filepath.Join(dir, part)); err != nil {
			return false
		}
	}
	return true
}
