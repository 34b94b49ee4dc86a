// Command hijacked simulates a tool of the toolchain that a source has got control of. The file
// "attack" beside it contains the words WHERE KIND TARGET: the result that is attacked (output,
// config, findings, or build for the directory of the build), what is left in its place (symlink,
// fifo or directory; with sleep, the tool only sleeps), and the target of a link. If WHERE is none,
// nothing is attacked.
package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	self, err := os.Executable()
	check(err)
	attack, err := os.ReadFile(filepath.Join(filepath.Dir(self), "attack"))
	check(err)
	how := strings.Fields(string(attack))
	if how[1] == "sleep" {
		time.Sleep(time.Hour)
	}
	if strings.HasPrefix(filepath.Base(self), "vet") {
		data, err := os.ReadFile(os.Args[len(os.Args)-1])
		check(err)
		var config struct{ Stdout string }
		check(json.Unmarshal(data, &config))
		leave(how, "findings", config.Stdout, "{}")
		return
	}
	leave(how, "output", os.Args[slices.Index(os.Args, "-o")+1], "binary")
	dir := filepath.Join(os.Getenv("TMPDIR"), "go-build1")
	if how[0] == "build" {
		check(os.Symlink(filepath.Dir(how[2]), dir))
		return
	}
	check(os.MkdirAll(filepath.Join(dir, "b001"), 0o700))
	leave(how, "config", filepath.Join(dir, "b001", "importcfg.link"), "packagefile goless.io/function/handler=/x\n")
}

// leave leaves a file with this content, or what the attack says.
func leave(how []string, where, path, content string) {
	if how[0] != where {
		check(os.WriteFile(path, []byte(content), 0o700))
		return
	}
	switch how[1] {
	case "symlink":
		check(os.Symlink(how[2], path))
	case "fifo":
		check(syscall.Mkfifo(path, 0o600))
	case "directory":
		check(os.Mkdir(path, 0o700))
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
