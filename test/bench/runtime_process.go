package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A process serves on inherited listeners, so that it can receive requests from its start. It
// logs to /dev/null.
type process struct {
	cmd         *exec.Cmd
	addr, admin string
}

func startProcess(ctx context.Context, program string, args ...string) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, program, args...)}
	p.cmd.Env = []string{"SERVER_LISTENER=3", "ADMIN_LISTENER=4", "FUNCTION_NAME=hello", "FUNCTION_NAMESPACE=default", "FUNCTION_REVISION=abc"}
	for _, address := range []*string{&p.addr, &p.admin} {
		file, err := listenerFile(address)
		if err != nil {
			return nil, err
		}
		defer file.Close() //nolint:errcheck // the process has its own
		p.cmd.ExtraFiles = append(p.cmd.ExtraFiles, file)
	}
	return p, p.cmd.Start()
}

// listenerFile returns a listener on loopback as a file, and sets its address.
func listenerFile(address *string) (*os.File, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer listener.Close() //nolint:errcheck // the file is a copy
	*address = listener.Addr().String()
	return listener.(*net.TCPListener).File()
}

func (p *process) stop() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // it was killed
}

// measureStart measures the time from the start of a Function until it is ready, and its memory
// after a first request.
func measureStart(ctx context.Context, s *session, function string) error {
	var ready, resident []float64
	for range s.n {
		took, memory, err := startOnce(ctx, function)
		if err != nil {
			return err
		}
		ready = append(ready, took.Seconds()*1000)
		resident = append(resident, memory)
	}
	s.results.add("runtime.start_ms", median(ready), "ms", s.n)
	s.results.add("runtime.rss_mib", median(resident), "MiB", s.n)
	return nil
}

func startOnce(ctx context.Context, function string) (took time.Duration, resident float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	began := time.Now()
	p, err := startProcess(ctx, function)
	if err != nil {
		return 0, 0, err
	}
	defer p.stop()
	for status := 0; status != http.StatusOK; {
		if status, err = ask(ctx, client, "http://"+p.admin+"/readyz"); err != nil {
			return 0, 0, fmt.Errorf("waiting until the function is ready: %w", err)
		}
	}
	took = time.Since(began)
	if _, err := ask(ctx, client, "http://"+p.addr); err != nil {
		return 0, 0, err
	}
	resident, err = residentMemory(p.cmd.Process.Pid)
	return took, resident, err
}

func ask(ctx context.Context, client *http.Client, url string) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, errors.Join(err, resp.Body.Close())
}

var vmRSS = regexp.MustCompile(`(?m)^VmRSS:\s+(\d+) kB$`)

// residentMemory returns the resident memory of a process in MiB.
func residentMemory(pid int) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	match := vmRSS.FindSubmatch(status)
	if match == nil {
		return 0, errors.New("/proc does not tell the memory of the function: it has ended")
	}
	kibibytes, err := strconv.ParseFloat(string(match[1]), 64)
	return kibibytes / 1024, err
}

// tick is the unit of times in /proc. It is the same on all Linux platforms of Go.
const tick = 10 * time.Millisecond

// cpu returns the processor time of the process.
func (p *process) cpu() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may contain spaces. After it the state is the first field, and
	// the times in user and in kernel mode are these:
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc tells the times of the server as %q", stat)
	}
	user, err := strconv.Atoi(fields[11])
	kernel, kernelErr := strconv.Atoi(fields[12])
	return time.Duration(user+kernel) * tick, errors.Join(err, kernelErr)
}
