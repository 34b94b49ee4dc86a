package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// patience is how long a script waits for an expected event.
const patience = 5 * time.Minute

// commands are additional commands for scripts of servers: they read the output of a running server
// and send requests to it.
var commands = map[string]func(*testscript.TestScript, bool, []string){
	"await":  await,
	"get":    get,
	"free":   free,
	"occupy": occupy,
	"gone":   gone,
}

// await FILE REGEXP waits until the content of the file matches.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await file regexp")
	}
	pattern, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		data, err := os.ReadFile(ts.MkAbs(args[0]))
		if err == nil && pattern.Match(data) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s does not match %q after %s:\n%s", args[0], args[1], patience, data)
		}
	}
}

// get FILE WORD PATH TEXT requests PATH from the last URL after WORD in the file, until the status
// and body of the response contain the text, in which \n is a line break. With an empty text, any
// outcome of one request is accepted. Negated, the request must fail.
func get(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 4 {
		ts.Fatalf("usage: get file word path text")
	}
	matches := regexp.MustCompile(args[1]+` at (http://[^/\s]+)`).FindAllStringSubmatch(ts.ReadFile(args[0]), -1)
	if matches == nil {
		ts.Fatalf("%s holds no URL after %q", args[0], args[1])
	}
	match, want := matches[len(matches)-1], strings.ReplaceAll(args[3], `\n`, "\n")
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		body, err := call(match[1] + args[2])
		if neg && err != nil || !neg && err == nil && strings.Contains(body, want) {
			return
		}
		if neg || time.Now().After(deadline) || args[3] == "" {
			ts.Logf("GET %s%s: %q %v", match[1], args[2], body, err)
			if args[3] == "" && !neg {
				return // without a text, any outcome is accepted
			}
			ts.Fatalf("want %q, negated: %t", args[3], neg)
		}
	}
}

func call(url string) (string, error) {
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(response.Body)
	return response.Status + "\n" + string(body), err
}

// free VARIABLE sets the variable to a free port.
func free(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", "localhost:0")
	ts.Check(err)
	ts.Check(l.Close())
	ts.Setenv(args[0], strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
}

// occupy VARIABLE listens on a port until the script ends, and sets the variable to it.
func occupy(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", "localhost:0")
	ts.Check(err)
	ts.Defer(func() { _ = l.Close() })
	ts.Setenv(args[0], strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
}

// gone waits until no process runs a program below the directory of the script. It requires /proc.
func gone(ts *testscript.TestScript, _ bool, _ []string) {
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		running := below(ts.Getenv("WORK"))
		if len(running) == 0 {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("still running: %v", running)
		}
	}
}

func below(dir string) (programs []string) {
	links, _ := filepath.Glob("/proc/[0-9]*/exe") // the pattern is valid
	for _, link := range links {
		if program, err := os.Readlink(link); err == nil && strings.HasPrefix(program, dir) {
			programs = append(programs, program)
		}
	}
	return programs
}
