// Package watch owns the question of when files were saved. It refuses to know
// what is in them: what is told as a change may be none.
package watch

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// quiet is for how long nothing has to happen before a change is told: to save a
// file is to write, rename and remove several for some editors.
const quiet = 15 * time.Millisecond

// Watcher tells of changes of a file, or of any file in a directory.
type Watcher struct {
	notify  *fsnotify.Watcher
	names   []string // of the files that matter, all if empty
	changes chan struct{}
}

// New watches the file or the directory path, with all directories below it. Of a
// file it is the directory that is watched, for editors put another file in its
// place; changes of the files called beside in there are told as well.
func New(path string, beside ...string) (*Watcher, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", path, err)
	}
	w := &Watcher{notify: notify, changes: make(chan struct{}, 1)}
	if info.IsDir() {
		err = w.addTree(path)
	} else {
		w.names = append([]string{filepath.Base(path)}, beside...)
		err = notify.Add(filepath.Dir(path))
	}
	if err != nil {
		_ = notify.Close() // what is told is why it is of no use
		return nil, fmt.Errorf("watching %s: %w", path, err)
	}
	go w.run()
	return w, nil
}

// Changes delivers once for all that was changed together.
func (w *Watcher) Changes() <-chan struct{} { return w.changes }

// Close ends the watching.
func (w *Watcher) Close() error { return w.notify.Close() }

// addTree watches all directories but those whose name begins with a dot, where
// tools keep what changes all the time.
func (w *Watcher) addTree(root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || !entry.IsDir():
			return err
		case path != root && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		}
		return w.notify.Add(path)
	})
}

// run ends when the watcher is closed.
func (w *Watcher) run() {
	var settled <-chan time.Time
	for {
		select {
		case event, ok := <-w.notify.Events:
			if !ok {
				return
			}
			if w.matters(event) {
				settled = time.After(quiet)
			}
		case _, ok := <-w.notify.Errors: // events were lost, perhaps the one
			if !ok {
				return
			}
			settled = time.After(quiet)
		case <-settled:
			settled = nil
			select {
			case w.changes <- struct{}{}:
			default: // one is waiting that says the same
			}
		}
	}
}

func (w *Watcher) matters(event fsnotify.Event) bool {
	if event.Op == fsnotify.Chmod {
		return false
	}
	if len(w.names) > 0 {
		return slices.Contains(w.names, filepath.Base(event.Name))
	}
	if info, err := os.Stat(event.Name); err == nil && info.IsDir() && event.Has(fsnotify.Create) {
		_ = w.addTree(event.Name) // it may be gone already
	}
	return !strings.HasPrefix(filepath.Base(event.Name), ".")
}
