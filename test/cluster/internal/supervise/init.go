// Package supervise runs programs as the first process of a PID namespace: it starts them,
// restarts them when they exit, and reaps their orphans. It does not know which programs they
// are.
package supervise

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Init is the only code in the process that waits for child processes. Others must not start
// and wait for processes (as os/exec does), because a process can be waited for only once.
type Init struct {
	mu      sync.Mutex
	waiting map[int]chan<- syscall.WaitStatus
}

// NewInit returns an Init that reaps every process that exits: its own children, and the
// orphans that the kernel reparents to it.
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

// Start starts a program. The channel receives its status when it has exited.
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

// collect waits for all exited processes. It excludes Start, so that no process is reaped
// before it is registered.
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
