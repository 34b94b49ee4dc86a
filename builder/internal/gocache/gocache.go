// Package gocache implements a build cache for the go command that reads from several directories
// and writes to one of them. A build can thus use caches that are read-only or that other builds
// use at the same time. The go command starts the builder again, as the program in GOCACHEPROG (see
// Enter), and uses the protocol of cmd/go/internal/cacheprog. The directories have the form of a
// GOCACHE.
package gocache

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// name is the argv[0] by which Enter recognizes a process that has to become a cache.
const name = "builder-gocache"

// Setting returns the value of GOCACHEPROG for a cache that writes to writeDir, and reads from
// writeDir and then from readDirs. It creates a link to this program in linkDir. The go command must
// be able to read and execute both the link and the program. The program must call Enter.
func Setting(linkDir, writeDir string, readDirs ...string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	link := filepath.Join(linkDir, name)
	if err := os.Symlink(self, link); err != nil {
		return "", fmt.Errorf("creating a build cache: %w", err)
	}
	quoted := []string{"'" + link + "'", "'" + writeDir + "'"}
	for _, other := range readDirs {
		quoted = append(quoted, "'"+other+"'")
	}
	return strings.Join(quoted, " "), nil
}

// Enter does nothing unless the go command started this process as its build cache. In that case,
// Enter runs the cache and does not return.
func Enter() {
	if filepath.Base(os.Args[0]) != name {
		return
	}
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "a build cache needs a directory to write to")
		os.Exit(2)
	}
	c := cache{write: os.Args[1], read: os.Args[1:]}
	if err := c.serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(0)
}

// A request is a request of the go command. The body of a put follows as a JSON string.
type request struct {
	ID                 int64
	Command            string
	ActionID, OutputID []byte
	BodySize           int64
}

// A response answers the request with the same ID.
type response struct {
	ID            int64
	Err           string     `json:",omitempty"`
	KnownCommands []string   `json:",omitempty"`
	Miss          bool       `json:",omitempty"`
	OutputID      []byte     `json:",omitempty"`
	Size          int64      `json:",omitempty"`
	Time          *time.Time `json:",omitempty"`
	DiskPath      string     `json:",omitempty"`
}

// A cache reads from several directories, in order, and writes to one.
type cache struct {
	write string   // directory to write to
	read  []string // directories to read from
}

// serve handles requests until the go command closes the cache or the input.
func (c *cache) serve(in io.Reader, out io.Writer) error {
	decoder, encoder := json.NewDecoder(bufio.NewReader(in)), json.NewEncoder(out)
	if err := encoder.Encode(response{KnownCommands: []string{"get", "put", "close"}}); err != nil {
		return err
	}
	for {
		var r request
		if err := decoder.Decode(&r); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading a request for the build cache: %w", err)
		}
		var body []byte
		if r.Command == "put" && r.BodySize > 0 {
			if err := decoder.Decode(&body); err != nil {
				return fmt.Errorf("reading an entry for the build cache: %w", err)
			}
		}
		if err := encoder.Encode(c.answer(r, body)); err != nil {
			return err
		}
		if r.Command == "close" {
			return nil
		}
	}
}

func (c *cache) answer(r request, body []byte) response {
	answer := response{ID: r.ID}
	switch r.Command {
	case "get":
		for _, dir := range c.read {
			if found, ok := find(dir, r.ActionID); ok {
				found.ID = r.ID
				return found
			}
		}
		answer.Miss = true
	case "put":
		path, err := c.put(r, body)
		if err != nil {
			answer.Err = err.Error()
		}
		answer.DiskPath = path
	}
	return answer
}

// find looks up an action in a directory. Corrupt entries are treated as misses.
func find(dir string, action []byte) (response, bool) {
	entry, err := os.ReadFile(path(dir, action, "a"))
	if err != nil {
		return response{}, false
	}
	fields := strings.Fields(string(entry)) // v1, action, output, size, time in ns
	if len(fields) != 5 || fields[0] != "v1" || fields[1] != hex.EncodeToString(action) {
		return response{}, false
	}
	output, err := hex.DecodeString(fields[2])
	if err != nil {
		return response{}, false
	}
	size, err := strconv.ParseInt(fields[3], 10, 64)
	if err != nil {
		return response{}, false
	}
	data := path(dir, output, "d")
	if info, err := os.Stat(data); err != nil || info.Size() != size {
		return response{}, false
	}
	found := response{OutputID: output, Size: size, DiskPath: data}
	if ns, err := strconv.ParseInt(fields[4], 10, 64); err == nil {
		found.Time = new(time.Unix(0, ns))
	}
	return found, true
}

// put writes the output before the entry, so that no entry exists without its output.
func (c *cache) put(r request, body []byte) (string, error) {
	data := path(c.write, r.OutputID, "d")
	if err := write(data, body); err != nil {
		return "", err
	}
	entry := fmt.Sprintf("v1 %x %x %20d %20d\n", r.ActionID, r.OutputID, len(body), time.Now().UnixNano())
	return data, write(path(c.write, r.ActionID, "a"), []byte(entry))
}

func write(file string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("writing to the build cache: %w", err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return fmt.Errorf("writing to the build cache: %w", err)
	}
	return nil
}

// path returns the file for an ID. kind is "a" for actions and "d" for outputs.
func path(dir string, id []byte, kind string) string {
	digits := hex.EncodeToString(id)
	return filepath.Join(dir, digits[:min(2, len(digits))], digits+"-"+kind)
}
