// Package watch tells when files were saved, by looking at their sizes and times again and
// again. So it is the same on every system, in network file systems, and for directories
// that are replaced by others of their name. It does not read the files: what it tells of
// may have changed nothing.
package watch

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// pause is the time between two looks at least. Ten times as long as a look takes is better,
// where there are many files.
const pause = 100 * time.Millisecond

// Watcher tells of changes of a file, or of any file in a directory.
type Watcher struct {
	path    string // absolute
	beside  []string
	changes chan struct{}
	closed  chan struct{}

	mu       sync.Mutex
	included []string
}

// New watches the file or the directory path, with all directories below it but those whose
// name begins with a dot. Changes of files beside a file, in the same directory, are told as
// well if they have one of the given names. It is an error if there is nothing at path;
// later that may go and come.
func New(path string, beside ...string) (*Watcher, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	w := &Watcher{path: absolute, beside: beside, changes: make(chan struct{}, 1), closed: make(chan struct{})}
	go w.run(w.look())
	return w, nil
}

// Include watches all files in these directories as well, without those below, and no
// longer those of an earlier call. A directory that is missing may come later.
func (w *Watcher) Include(dirs ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.included = dirs
}

// Changes delivers once for all that was changed together.
func (w *Watcher) Changes() <-chan struct{} { return w.changes }

// Close ends the watching.
func (w *Watcher) Close() { close(w.closed) }

// run tells of a change when nothing has happened since the look before: to save one file,
// some editors empty it first, or write, rename and remove several.
func (w *Watcher) run(told files) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for before := told; ; {
		select {
		case <-w.closed:
			return
		case <-timer.C:
		}
		began := time.Now()
		now := w.look()
		if maps.Equal(now, before) && !maps.Equal(now, told) {
			told = now
			select {
			case w.changes <- struct{}{}:
			default: // one is waiting that says the same
			}
		}
		before = now
		timer.Reset(max(pause, 10*time.Since(began)))
	}
}

// files are what was there at a look, by path.
type files map[string]state

type state struct{ size, modified int64 }

// look returns the files that matter. What cannot be read is not there.
func (w *Watcher) look() files {
	found := files{}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, dir := range w.included {
		entries, _ := os.ReadDir(dir)
		for _, entry := range entries {
			found.add(filepath.Join(dir, entry.Name()))
		}
	}
	if info, err := os.Stat(w.path); err == nil && info.IsDir() {
		found.addTree(w.path)
		return found
	}
	for _, name := range append([]string{filepath.Base(w.path)}, w.beside...) {
		found.add(filepath.Join(filepath.Dir(w.path), name))
	}
	return found
}

func (f files) addTree(dir string) {
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return
	}
	_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		hidden := path != root && strings.HasPrefix(entry.Name(), ".")
		switch {
		case err == nil && hidden && entry.IsDir():
			return fs.SkipDir
		case err == nil && !hidden:
			f.add(path)
		}
		return nil
	})
}

func (f files) add(path string) {
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		f[path] = state{info.Size(), info.ModTime().UnixNano()}
	}
}
