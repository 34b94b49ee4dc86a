package sandbox

import (
	"fmt"
	"io"
	"net"
	"os"
	"testing"
)

// probeName is the argument that turns the test binary into a probe: a command that attempts what a
// confined command must not do.
const probeName = "probe"

// attack performs the action that args name. It returns false if there is none.
var attack = func([]string) bool { return false }

func TestMain(m *testing.M) {
	Enter(nil)
	if len(os.Args) > 2 && os.Args[1] == probeName {
		probe(os.Args[2:])
		return
	}
	if len(os.Args) > 1 && os.Args[1] == abandonName {
		abandon()
		return
	}
	if attack(os.Args[1:]) {
		return
	}
	os.Exit(m.Run())
}

// probe prints a line for each attempt: to read and write the files in args, and to connect to the
// address in the last argument.
func probe(args []string) {
	files, address := args[:len(args)-1], args[len(args)-1]
	for _, file := range files {
		_, err := os.ReadFile(file)
		say("read", file, err == nil)
		err = os.WriteFile(file, []byte("changed"), 0o600)
		say("write", file, err == nil)
	}
	conn, err := net.Dial("tcp", address)
	if err == nil {
		conn.Close() //nolint:errcheck // nothing was written
	}
	say("connect", err == nil)
	say("large file", writeLarge(files[0]+".large") == nil)
}

func say(what ...any) {
	_, _ = fmt.Fprintln(os.Stdout, what...) // the test detects a missing line
}

// writeLarge writes a sparse file larger than a build may write.
func writeLarge(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // the error that counts is the next one
	if _, err := f.Seek(MaxFileSize, io.SeekStart); err != nil {
		return err
	}
	_, err = f.Write([]byte("x"))
	return err
}
