package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// Arguments that make the test binary act like a hijacked compiler.
const (
	specialName = "special" // creates files that are not regular
	leaveName   = "leave"   // leaves a process behind
	lingerName  = "linger"  // is that process
	shareName   = "share"   // maps shared memory
	unownedName = "unowned" // uses memory that belongs to no process
	disturbName = "disturb" // takes processors and limits from other processes
	leaderName  = "leader"  // ends the first thread of a process and uses memory in another one
	watchName   = "watch"   // watches a directory
	changeName  = "change"  // changes files without opening them
	hideName    = "hide"    // creates files that are in no directory
)

func init() {
	attack = attackLinux
	if len(os.Args) > 1 && os.Args[1] == leaderName {
		runtime.LockOSThread() // locks to the first thread, on which init is called
	}
}

func attackLinux(args []string) bool {
	if len(args) == 0 {
		return false
	}
	switch args[0] {
	case specialName:
		special(args[1])
	case leaveName:
		leave(args[1])
	case lingerName:
		time.Sleep(time.Hour)
	case shareName:
		share()
	case unownedName:
		unowned()
	case disturbName:
		disturb()
	case leaderName:
		endLeader()
	case watchName:
		watch(args[1])
	case changeName:
		change(args[1])
	case hideName:
		hide(args[1])
	default:
		return false
	}
	return true
}

// special prints a line for each kind of file that it can create in dir.
func special(dir string) {
	in := func(name string) string { return filepath.Join(dir, name) }
	listen := func(name string) error {
		l, err := net.Listen("unix", name)
		if err == nil {
			err = l.Close()
		}
		return err
	}
	say("regular", os.WriteFile(in("regular"), []byte("x"), 0o600) == nil)
	say("directory", os.Mkdir(in("directory"), 0o700) == nil)
	say("symlink", os.Symlink("/etc/passwd", in("symlink")) == nil)
	say("fifo", syscall.Mkfifo(in("fifo"), 0o600) == nil)
	say("socket", listen(in("socket")) == nil)
}

// leave starts a process and exits before it ends.
func leave(how string) {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(self, lingerName)
	cmd.Stdout = os.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: how == "Setsid", Setpgid: how == "Setpgid"}
	say("started", cmd.Start() == nil)
}

// share prints a line for each kind of memory that it can map.
func share() {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	file, err := os.Open(self)
	if err != nil {
		panic(err)
	}
	for _, memory := range []struct {
		name     string
		fd, kind int
	}{{"shared", -1, unix.MAP_SHARED | unix.MAP_ANON}, {"private", -1, unix.MAP_PRIVATE | unix.MAP_ANON}, {"file", int(file.Fd()), unix.MAP_SHARED}} {
		_, err := unix.Mmap(memory.fd, 0, 4096, unix.PROT_READ, memory.kind)
		say(memory.name, err == nil)
	}
}

// unowned prints a line for each kind of memory that it can allocate outside its own.
func unowned() {
	_, err := unix.MemfdCreate("memory", 0)
	say("memfd", err == nil)
	_, _, errno := unix.Syscall(memfdSecret, 0, 0, 0)
	say("secret", errno != unix.EPERM) // most kernels do not support it
	_, err = unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600)
	say("shm", err == nil)
	try("semget", unix.SYS_SEMGET)
	try("msgget", unix.SYS_MSGGET, 1)
	try("mq_open", unix.SYS_MQ_OPEN)
	try("add_key", unix.SYS_ADD_KEY)
	try("request_key", unix.SYS_REQUEST_KEY)
	try("keyctl", unix.SYS_KEYCTL, 1<<20)
	try("io_uring_setup", unix.SYS_IO_URING_SETUP)
}

// disturb prints a line for each way in which it can change another process of its user.
func disturb() {
	try("setpriority", unix.SYS_SETPRIORITY, 99)
	try("ioprio_set", unix.SYS_IOPRIO_SET, 99)
	try("sched_setaffinity", unix.SYS_SCHED_SETAFFINITY)
	try("sched_setscheduler", unix.SYS_SCHED_SETSCHEDULER)
	try("sched_setparam", unix.SYS_SCHED_SETPARAM)
	try("sched_setattr", unix.SYS_SCHED_SETATTR)
	try("prlimit", unix.SYS_PRLIMIT64, uintptr(os.Getppid()), unix.RLIMIT_NOFILE)
	try("own prlimit", unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE)
}

// endLeader uses 64 MiB and ends the first thread of this process, so that the kernel reports the
// whole process as a zombie without memory. The process continues until its input ends.
func endLeader() {
	used := bytes.Repeat([]byte("x"), 64<<20)
	go func() {
		_, _ = os.Stdin.Read(used) // empty
		os.Exit(0)
	}()
	_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0) // init has locked the goroutine to the thread
}

// watch prints whether it can learn the names of files in dir, for each way to do so.
func watch(dir string) {
	fd, err := unix.InotifyInit1(0)
	if err == nil {
		_, err = unix.InotifyAddWatch(fd, dir, unix.IN_CREATE)
	}
	say("inotify", err == nil)
	try("fanotify", unix.SYS_FANOTIFY_INIT, math.MaxUint32)
	if runtime.GOARCH == "amd64" {
		try("inotify_init", inotifyInitAMD64)
	}
}

// change prints a line for each way in which it can change a file that it cannot open.
func change(file string) {
	say("chmod", os.Chmod(file, 0) == nil)
	say("lchown", os.Lchown(file, os.Getuid(), os.Getgid()) == nil)
	say("truncate", os.Truncate(file, 0) == nil)
	say("times", os.Chtimes(file, time.Unix(1, 0), time.Unix(1, 0)) == nil)
	for _, number := range refusedOn[runtime.GOARCH] {
		try(fmt.Sprint("system call ", number), uintptr(number))
	}
	for name, number := range map[string]uintptr{
		"fchmod": unix.SYS_FCHMOD, "fchmodat": unix.SYS_FCHMODAT, "fchmodat2": unix.SYS_FCHMODAT2,
		"fchown": unix.SYS_FCHOWN, "fchownat": unix.SYS_FCHOWNAT, "utimensat": unix.SYS_UTIMENSAT,
		"setxattr": unix.SYS_SETXATTR, "lsetxattr": unix.SYS_LSETXATTR, "fsetxattr": unix.SYS_FSETXATTR, "setxattrat": unix.SYS_SETXATTRAT,
		"removexattr": unix.SYS_REMOVEXATTR, "lremovexattr": unix.SYS_LREMOVEXATTR, "fremovexattr": unix.SYS_FREMOVEXATTR, "removexattrat": unix.SYS_REMOVEXATTRAT,
		"file_setattr": unix.SYS_FILE_SETATTR, "truncate": unix.SYS_TRUNCATE,
	} {
		try(name, number, math.MaxUint32) // no descriptor and no path
	}
}

// hide prints a line for each way in which it can have a file in dir that is in no directory, or in
// a different one from before.
func hide(dir string) {
	file, sub := filepath.Join(dir, "file"), filepath.Join(dir, "sub")
	say("create", errors.Join(os.WriteFile(file, []byte("x"), 0o600), os.Mkdir(sub, 0o700)) == nil)
	_, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR, 0o600)
	say("unnamed", err == nil)
	_, err = unix.Openat2(unix.AT_FDCWD, dir, &unix.OpenHow{Flags: unix.O_TMPFILE | unix.O_RDWR, Mode: 0o600})
	say("unnamed by openat2", err == nil)
	say("unnamed by open", openUnnamed(dir))
	say("rename", os.Rename(file, file+"2") == nil)
	say("remove", os.Remove(file+"2") == nil || os.Remove(file) == nil)
	say("remove directory", os.Remove(sub) == nil)
}

// openUnnamed reports whether the system call open, if it exists, creates a file in no directory.
func openUnnamed(dir string) bool {
	path, err := unix.BytePtrFromString(dir)
	if err != nil || runtime.GOARCH != "amd64" {
		return false
	}
	_, _, errno := unix.Syscall(openAMD64, uintptr(unsafe.Pointer(path)), unix.O_TMPFILE|unix.O_RDWR, 0o600)
	return errno == 0
}

// try prints whether a system call is possible. With the arguments of the tests, a possible call
// fails with an error other than EPERM, or changes nothing.
func try(name string, number uintptr, args ...uintptr) {
	var a [6]uintptr
	copy(a[:], args)
	_, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
	say(name, errno != unix.EPERM)
}

// confined returns a policy with which this test binary can run and write to dir.
func confined(t *testing.T, dir string) (self string, p Policy) {
	t.Helper()
	if !ConfinesFiles() {
		t.Skip("the kernel has no Landlock")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p.Read = slices.DeleteFunc([]string{filepath.Dir(self), "/lib", "/lib64", "/usr/lib"}, func(dir string) bool { return !exists(dir) })
	p.Write = []string{dir}
	return self, p
}

// TestRegularFilesOnly runs a command that creates all kinds of files in a writable directory.
func TestRegularFilesOnly(t *testing.T) {
	self, policy := confined(t, t.TempDir())
	r, err := Run(t.Context(), Command{Policy: policy, Args: []string{self, specialName, policy.Write[0]}})
	if err != nil {
		t.Fatalf("%v: %s", err, &r.Stderr)
	}
	if diff := cmp.Diff("regular true\ndirectory true\nsymlink false\nfifo false\nsocket false\n", r.Stdout.String()); diff != "" {
		t.Errorf("what a command can make: -want +got\n%s", diff)
	}
}

// TestWriteFiles checks that a file can be writable in a directory that is not.
func TestWriteFiles(t *testing.T) {
	self, policy := confined(t, t.TempDir())
	dir := t.TempDir()
	policy.WriteFiles = []string{filepath.Join(dir, "mine")}
	for _, name := range []string{"mine", "other"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Run(t.Context(), Command{Policy: policy, Args: []string{self, probeName, filepath.Join(dir, "mine"), filepath.Join(dir, "other"), "127.0.0.1:1"}})
	if err != nil {
		t.Fatalf("%v: %s", err, &r.Stderr)
	}
	got := strings.ReplaceAll(r.Stdout.String(), dir+"/", "")
	if want := "read mine true\nwrite mine true\nread other false\nwrite other false\n"; !strings.HasPrefix(got, want) {
		t.Errorf("it can do this: %s, want %s", got, want)
	}
}

// TestNothingOutlivesACommand runs commands that leave a process behind and succeed. A remaining
// process would hold the pipe open.
func TestNothingOutlivesACommand(t *testing.T) {
	for _, how := range []string{"Group", "Setsid", "Setpgid"} {
		t.Run(how, func(t *testing.T) {
			self, policy := confined(t, t.TempDir())
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close() //nolint:errcheck // it was only read
			_, err = Run(t.Context(), Command{Policy: policy, Args: []string{self, leaveName, how}, Stdout: w})
			if err := errors.Join(err, w.Close(), r.SetReadDeadline(time.Now().Add(30*time.Second))); err != nil {
				t.Fatal(err)
			}
			said, err := io.ReadAll(r)
			if err != nil {
				t.Errorf("a process has outlived its command: %v", err)
			}
			if want := "started " + map[bool]string{true: "true\n", false: "false\n"}[how == "Group"]; string(said) != want {
				t.Errorf("it says %q, want %q", said, want)
			}
		})
	}
}

// TestSharedMemory runs a command that maps memory that stays allocated after all processes have
// unmapped it: RLIMIT_DATA does not limit it, and it is not resident. Private memory and shared
// mappings of files remain possible.
func TestSharedMemory(t *testing.T) {
	self, policy := confined(t, t.TempDir())
	r, err := Run(t.Context(), Command{Policy: policy, Args: []string{self, shareName}})
	if want := "shared false\nprivate true\nfile true\n"; err != nil || r.Stdout.String() != want {
		t.Errorf("it ended with %v and can map this: %q, want %q", err, &r.Stdout, want)
	}
}

// TestUnownedMemory runs a command that attempts to use memory that is not measured.
func TestUnownedMemory(t *testing.T) {
	self, policy := confined(t, t.TempDir())
	r, err := Run(t.Context(), Command{Policy: policy, Args: []string{self, unownedName}})
	want := "memfd false\nsecret false\nshm false\nsemget false\nmsgget false\nmq_open false\nadd_key false\nrequest_key false\nkeyctl false\nio_uring_setup false\n"
	if diff := cmp.Diff(want, r.Stdout.String()); err != nil || diff != "" {
		t.Errorf("it ended with %v and has this: -want +got\n%s", err, diff)
	}
}

// TestOtherProcesses runs a command that attempts to change processes that it has not started.
func TestOtherProcesses(t *testing.T) {
	self, policy := confined(t, t.TempDir())
	r, err := Run(t.Context(), Command{Policy: policy, Args: []string{self, disturbName}})
	want := "setpriority false\nioprio_set false\nsched_setaffinity false\nsched_setscheduler false\nsched_setparam false\nsched_setattr false\nprlimit false\nown prlimit true\n"
	if diff := cmp.Diff(want, r.Stdout.String()); err != nil || diff != "" {
		t.Errorf("it ended with %v and can do this: -want +got\n%s", err, diff)
	}
}

// TestAttributes runs a command that attempts to change a file outside its policy without opening
// it, which Landlock does not prevent.
func TestAttributes(t *testing.T) {
	self, policy := confined(t, t.TempDir())
	file := filepath.Join(t.TempDir(), "result")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), Command{Policy: policy, Args: []string{self, changeName, file}})
	if err != nil || r.Stdout.Len() == 0 || strings.Contains(r.Stdout.String(), "true") {
		t.Errorf("it ended with %v and can change this:\n%s", err, &r.Stdout)
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 || info.Size() != 1 {
		t.Errorf("the file is %v (%v), want that it is unchanged", info, err)
	}
}

// TestWatch runs a command that attempts to learn the names of files in a directory outside its
// policy, such as those of another build.
func TestWatch(t *testing.T) {
	self, policy := confined(t, t.TempDir())
	r, err := Run(t.Context(), Command{Policy: policy, Args: []string{self, watchName, t.TempDir()}})
	if err != nil || r.Stdout.Len() == 0 || strings.Contains(r.Stdout.String(), "true") {
		t.Errorf("it ended with %v and can watch this:\n%s", err, &r.Stdout)
	}
}

// TestHiddenFiles runs a command that attempts to create files that a Quota does not measure.
func TestHiddenFiles(t *testing.T) {
	for removes, want := range map[bool]string{
		false: "create true\nunnamed false\nunnamed by openat2 false\nunnamed by open false\nrename false\nremove false\nremove directory false\n",
		true:  "create true\nunnamed false\nunnamed by openat2 false\nunnamed by open false\nrename true\nremove true\nremove directory true\n",
	} {
		self, policy := confined(t, t.TempDir())
		policy.Removes = removes
		r, err := Run(t.Context(), Command{Policy: policy, Args: []string{self, hideName, policy.Write[0]}})
		if diff := cmp.Diff(want, r.Stdout.String()); err != nil || diff != "" {
			t.Errorf("with Removes %t it ended with %v and can do this: -want +got\n%s", removes, err, diff)
		}
	}
}

// TestCPUTime stops a command before it waits for its working child.
func TestCPUTime(t *testing.T) {
	working := firstWrite{closed: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-working.closed
		cancel()
	}()
	r, err := Run(ctx, Command{
		Policy: Policy{Open: true},
		Args:   []string{"/bin/sh", "-c", "(i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo worked; sleep 1000) & wait"},
		Stdout: working,
	})
	if spent, known := r.CPUTime(); !errors.Is(err, context.Canceled) || !known || spent < 20*time.Millisecond || spent > time.Minute {
		t.Errorf("it ended with %v, after %s on a processor", err, spent)
	}
	r, err = Run(t.Context(), Command{Policy: Policy{Open: true}, Args: []string{"/bin/sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"}})
	if spent, known := r.CPUTime(); err != nil || !known || spent < 20*time.Millisecond || spent > time.Minute {
		t.Errorf("it ended with %v, after %s on a processor", err, spent)
	}
}
