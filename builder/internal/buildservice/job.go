package buildservice

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
)

// A job is a build that several clients may wait for. It is cancelled when no client waits for it.
type job struct {
	begun chan struct{} // closed when the build starts
	done  chan struct{} // closed when the build has ended

	// report is the result of the build; valid after done is closed. It is nil if the build was
	// cancelled or dropped from the queue.
	report  json.RawMessage
	dropped bool

	cancel  context.CancelFunc
	waiting int // number of clients
}

// A jobID identifies jobs that clients may share: those with the same key and the same limits. A
// client that allows little time or memory must not determine the result for others.
type jobID struct{ key, limits string }

// jobs are the queued and running builds.
type jobs struct {
	mu      sync.Mutex
	byID    map[jobID]*job
	working sync.WaitGroup
	ending  bool
}

// errEnding means that this replica is shutting down and starts no builds.
var errEnding = errors.New("this replica of the build service is shutting down; another one continues")

// has reports whether a job for key exists.
func (j *jobs) has(key string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	id, _ := j.find(key)
	return id.key != ""
}

// find returns any job for key. The caller must hold the lock.
func (j *jobs) find(key string) (jobID, *job) {
	for id, found := range j.byID {
		if id.key == key {
			return id, found
		}
	}
	return jobID{}, nil
}

// join adds a client to any job for key. It returns nil if none exists. The client must call leave.
func (j *jobs) join(key string) (jobID, *job) {
	j.mu.Lock()
	defer j.mu.Unlock()
	id, found := j.find(key)
	if found != nil {
		found.waiting++
	}
	return id, found
}

// start adds a client to the job with this ID and starts the job if necessary. The client must call
// leave. prepare returns the work of a new job, or an error if it cannot start; it is called with
// the lock held.
func (j *jobs) start(id jobID, prepare func() (work func(context.Context, *job), err error)) (*job, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if found := j.byID[id]; found != nil {
		found.waiting++
		return found, nil
	}
	if j.ending {
		return nil, errEnding
	}
	work, err := prepare()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	started := &job{begun: make(chan struct{}), done: make(chan struct{}), cancel: cancel, waiting: 1}
	if j.byID == nil {
		j.byID = map[jobID]*job{}
	}
	j.byID[id] = started
	j.working.Go(func() {
		defer cancel()
		work(ctx, started)
		j.mu.Lock()
		defer j.mu.Unlock()
		j.remove(id, started)
		close(started.done)
	})
	return started, nil
}

// leave removes a client from a job, and cancels the job if no client is left.
func (j *jobs) leave(id jobID, left *job) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if left.waiting--; left.waiting == 0 {
		j.remove(id, left) // the next client starts a new job
		left.cancel()
	}
}

// remove deletes a job unless another one has replaced it. The caller must hold the lock.
func (j *jobs) remove(id jobID, ended *job) {
	if j.byID[id] == ended {
		delete(j.byID, id)
	}
}

// end cancels all jobs, prevents new ones, and returns when all have ended.
func (j *jobs) end() {
	j.mu.Lock()
	j.ending = true
	for _, cancelled := range j.byID {
		cancelled.cancel()
	}
	j.mu.Unlock()
	j.working.Wait()
}
