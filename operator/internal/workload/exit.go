package workload

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
)

// ExitReason returns the reason why a container exited: the panic or fatal error of the Go runtime
// and its position in the source, a signal, or else the last line that the program logged.
func ExitReason(fn *v1beta1.Function, ended *corev1.ContainerStateTerminated) string {
	text := strings.TrimSpace(ended.Message)
	if ended.Reason == "OOMKilled" {
		return outOfMemory(fn)
	}
	for _, cause := range []string{"panic: ", "fatal error: "} {
		if i := strings.Index(text, cause); i >= 0 {
			line, _, _ := strings.Cut(text[i:], "\n")
			return OneLine(line + sourceLine(text[i:]))
		}
	}
	logged, isError := lastLogged(text)
	unhealthy := ended.FinishedAt.Sub(ended.StartedAt.Time) >= desired.UnhealthyAfter
	switch {
	case isError:
		return OneLine(logged + sourceLine(text))
	case ended.ExitCode == exitTerminated || ended.ExitCode == exitByRuntime && unhealthy && !served(text):
		return after("it received SIGTERM because its health check failed: an init function or the initialization of a package variable does not return", logged)
	case ended.ExitCode == exitKilled:
		return after("it was killed: it did not exit after SIGTERM, or its node ran out of memory", logged)
	}
	switch { // of an exit code 0 the kubelet keeps no log
	case ended.ExitCode == 0 && unhealthy:
		return "it exited by itself, such as by os.Exit(0), or because its health check failed"
	case ended.ExitCode == 0:
		return "it exited by itself, such as by os.Exit(0)"
	}
	return after(fmt.Sprintf("it exited by itself, such as by os.Exit(%d) or log.Fatal", ended.ExitCode), logged)
}

// outOfMemory returns what may have used the memory of a container. Files in memory remain when the
// container is restarted, so that it may be killed again without a request.
func outOfMemory(fn *v1beta1.Function) string {
	const cause = "it needs more memory than spec.resources.limits.memory"
	if fn.Spec.Scratch == nil || fn.Spec.Scratch.Medium != v1beta1.ScratchInMemory {
		return cause
	}
	return fmt.Sprintf("%s; files in /tmp count towards this limit, up to %s: raise the limit, lower spec.scratch.size, or set spec.scratch.medium to Disk", cause, fn.Spec.Scratch.Size.String())
}

// Exit codes of a program that received a signal. The Go runtime exits with 2 if it receives SIGTERM
// as the first process of a container before a signal handler is installed: while an init runs.
const (
	exitByRuntime  = 2
	exitKilled     = 137
	exitTerminated = 143
)

// served reports whether the end of a log shows that the program had completed its inits: the
// runtime of functions has logged a line. The launcher logs only before them.
func served(text string) bool {
	return slices.ContainsFunc(strings.Split(text, "\n"), func(line string) bool {
		return strings.Contains(line, `"faas.name":`) && !strings.Contains(line, `"msg":"waiting for the binary"`)
	})
}

func after(cause, logged string) string {
	if logged == "" {
		return cause + "; its log is empty"
	}
	return OneLine(cause + "; last log line: " + logged)
}

// lastLogged returns the last line of a log; for a JSON line only the message and the error.
// isError reports whether the line is about an error: its level is error, or the launcher has
// written it. Text that the program has printed before a JSON line without a line break is quoted.
func lastLogged(text string) (line string, isError bool) {
	line = text[strings.LastIndexByte(text, '\n')+1:]
	if strings.HasPrefix(line, "launch: ") {
		return line, true
	}
	printed := line[:max(0, strings.Index(line, `{"level":`))]
	var entry struct{ Level, Msg, Error, Err string }
	if err := json.Unmarshal([]byte(line[len(printed):]), &entry); err != nil || entry.Msg == "" {
		return line, false
	}
	if printed != "" {
		entry.Msg = fmt.Sprintf("%q, then: %s", printed, entry.Msg)
	}
	isError = strings.EqualFold(entry.Level, "error") || strings.EqualFold(entry.Level, "fatal")
	if why := cmp.Or(entry.Error, entry.Err); why != "" {
		return entry.Msg + ": " + why, isError
	}
	return entry.Msg, isError
}

// frame matches a line of a stack trace in a module to which the builder assigns no version: the
// author's module and the runtime.
var frame = regexp.MustCompile(`([^\s"\\]*?)(?:goless\.io/function/handler|@v\d+\.0\.0)/([^\s"\\:]+\.go:\d+)`)

// sourceLine returns the author's line in a stack trace; empty if there is none.
func sourceLine(trace string) string {
	for _, match := range frame.FindAllStringSubmatch(trace, -1) {
		if !strings.HasSuffix(match[1], "goless.io/runtime") {
			return " at " + match[2]
		}
	}
	return ""
}
