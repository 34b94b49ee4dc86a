// Package supervise runs programs as the first process of a PID namespace: it
// starts them, starts them again when they end, and collects what they orphan.
// It owns processes and connections; it refuses to know which programs they are.
package supervise

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Init is the one process of a namespace that waits for all others. Nothing
// else in the program may start and wait for processes (os/exec does), because
// a process can be waited for only once.
type Init struct {
	mu      sync.Mutex
	waiting map[int]chan<- syscall.WaitStatus
}

// NewInit returns an Init that collects every process that ends, its own
// children and the orphans that the kernel hands to it.
func NewInit() *Init {
	i := &Init{waiting: make(map[int]chan<- syscall.WaitStatus)}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	go func() {
		for range ended {
			i.collect()
		}
	}()
	return i
}

// Start starts a program. Its status arrives on the channel when it has ended.
func (i *Init) Start(argv []string, attr *os.ProcAttr) (pid int, ended <-chan syscall.WaitStatus, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	process, err := os.StartProcess(argv[0], argv, attr)
	if err != nil {
		return 0, nil, err
	}
	pid = process.Pid
	status := make(chan syscall.WaitStatus, 1)
	i.waiting[pid] = status
	return pid, status, process.Release()
}

// collect waits for all processes that have ended. It excludes Start, so that
// no process ends before it is known.
func (i *Init) collect() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if done, ok := i.waiting[pid]; ok {
			delete(i.waiting, pid)
			done <- status
		}
	}
}
