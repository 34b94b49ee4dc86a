package status_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/status"
)

// nilMap is the output of a program that panics in an init function.
const nilMap = `panic: assignment to entry in nil map

goroutine 1 [running]:
goless.io/function/handler.fill(...)
	goless.io/function/handler/handler.go:7
goless.io/function/handler.init.0()
	goless.io/function/handler/handler.go:10 +0x2e
`

// inLibrary is the output of a module that panics in a dependency, after a log line of a request.
const inLibrary = `{"level":"info","msg":"request","http.response.status_code":200}
panic: regexp: Compile("("): error parsing regexp: missing closing )

goroutine 7 [running]:
regexp.MustCompile({0x940390, 0x1})
	regexp/regexp.go:313 +0xb4
github.com/some/library.Compile(...)
	github.com/some/library@v1.4.2/compile.go:9
example.com/shop/sub.Fill(...)
	example.com/shop@v0.0.0/sub/sub.go:5
`

// inStart is the log of a Start function that panics.
const inStart = `{"level":"error","msg":"panic in Start","exception.stacktrace":"goroutine 9 [running]:\n\tgoless.io/runtime@v0.0.0/function.go:122 +0x1\npanic(0x1)\n\truntime/panic.go:1\nexample.com/shop/v2.Start(0x1)\n\texample.com/shop/v2@v2.0.0/shop.go:12 +0x1\n"}
{"level":"error","msg":"Start failed","error":"it panicked: no database"}
`

// launched is a log line of the launcher before the program starts.
const launched = `{"level":"info","msg":"waiting for the binary","reason":"compiling","faas.name":"shop"}` + "\n"

// unhealthy is the explanation for a program that has never answered its health check.
const unhealthy = "it received SIGTERM because its health check failed: an init function or the initialization of a package variable does not return; "

// Files in memory count towards the memory limit, and the explanation mentions them.
func TestOutOfMemory(t *testing.T) {
	const inMemory = "; files in /tmp count towards this limit, up to 64Mi: raise the limit, lower spec.scratch.size, or set spec.scratch.medium to Disk"
	for medium, more := range map[v1beta1.ScratchMedium]string{v1beta1.ScratchOnDisk: "", v1beta1.ScratchInMemory: inMemory} {
		p := crashing(pod(latest, ended(0, `{"reason":"Built"}`)))
		*p.Status.ContainerStatuses[0].LastTerminationState.Terminated = corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}
		fn := function(1)
		fn.Spec.Scratch = &v1beta1.Scratch{Size: resource.MustParse("64Mi"), Medium: medium}
		seen := seen(deployment(1, 0, latest), nil, p)
		want := "exited with code 137: it needs more memory than spec.resources.limits.memory" + more
		if ready := meta.FindStatusCondition(status.Of(fn, seen).Conditions, "Ready"); ready.Message != "the function "+want {
			t.Errorf("%s: message of Ready: %q", medium, ready.Message)
		}
		if end := status.LatestEnd(fn, seen.Snapshot.Pods); !strings.Contains(end.Message, "it needs more memory than spec.resources.limits.memory"+more) {
			t.Errorf("%s: message of the event: %q", medium, end.Message)
		}
	}
}

// A function that exits reports the reason: the message of its author or the meaning of the exit
// code.
func TestWhyItEnded(t *testing.T) {
	for name, test := range map[string]struct {
		code         int32
		seconds      int // run time
		reason, said string
		want         string
	}{
		"Panic":        {2, 5, "Error", "{\"level\":\"info\"}\npanic: no database\n\ngoroutine 1 [running]:\n", "panic: no database"},
		"NilMapInInit": {2, 5, "Error", nilMap, "panic: assignment to entry in nil map at handler.go:7"},
		"InLibrary":    {2, 5, "Error", inLibrary, `panic: regexp: Compile("("): error parsing regexp: missing closing ) at sub/sub.go:5`},
		"Deadlock":     {2, 5, "Error", "fatal error: all goroutines are asleep - deadlock!\n", "fatal error: all goroutines are asleep - deadlock!"},
		"PanicInStart": {1, 5, "Error", inStart, "Start failed: it panicked: no database at shop.go:12"},
		"StartFails": {
			1, 5, "Error", `{"level":"info","msg":"listening"}` + "\n" + `{"level":"error","ts":"2026","msg":"Start failed","error":"dial db: refused"}` + "\n",
			"Start failed: dial db: refused",
		},
		"CannotListen":   {1, 5, "Error", `{"level":"error","msg":"served no longer","error":"cannot listen"}`, "served no longer: cannot listen"},
		"LogsAnError":    {1, 5, "Error", `{"level":"ERROR","msg":"no database"}`, "no database"},
		"Launcher":       {127, 5, "Error", "launch: /function/server does not exist\n", "launch: /function/server does not exist"},
		"LogFatal":       {1, 5, "Error", `{"level":"info","msg":"no database"}`, "it exited by itself, such as by os.Exit(1) or log.Fatal; last log line: no database"},
		"Exit":           {3, 5, "Error", "", "it exited by itself, such as by os.Exit(3) or log.Fatal; its log is empty"},
		"ExitTwo":        {2, 5, "Error", "", "it exited by itself, such as by os.Exit(2) or log.Fatal; its log is empty"},
		"ExitTwoLater":   {2, 7200, "Error", launched + `{"level":"info","msg":"serving","faas.name":"shop"}` + "\nusage: shop\n", "it exited by itself, such as by os.Exit(2) or log.Fatal; last log line: usage: shop"},
		"ExitZero":       {0, 5, "Completed", "", "it exited by itself, such as by os.Exit(0)"},
		"ExitZeroLater":  {0, 7200, "Completed", "", "it exited by itself, such as by os.Exit(0), or because its health check failed"},
		"LoopsInInit":    {143, 110, "Error", "", unhealthy + "its log is empty"},
		"FirstProcess":   {2, 110, "Error", "", unhealthy + "its log is empty"},
		"NoLineBreak":    {1, 5, "Error", `cannot connect{"level":"info","msg":"no database"}`, `it exited by itself, such as by os.Exit(1) or log.Fatal; last log line: "cannot connect", then: no database`},
		"NoBreakError":   {1, 5, "Error", `loading{"level":"error","msg":"Start failed","error":"no database"}`, `"loading", then: Start failed: no database`},
		"LogsAndLoops":   {2, 112, "Error", launched + "loading\n", unhealthy + "last log line: loading"},
		"Killed":         {137, 5, "Error", "loading\n", "it was killed: it did not exit after SIGTERM, or its node ran out of memory; last log line: loading"},
		"OutOfMemory":    {137, 5, "OOMKilled", "loading\n", "it needs more memory than spec.resources.limits.memory"},
		"ControlSigns":   {4, 5, "Error", "bye\x1b[31m", "it exited by itself, such as by os.Exit(4) or log.Fatal; last log line: bye?[31m"},
		"PanicTellsMore": {2, 5, "Error", "panic: a\n\tpanic: b\n", "panic: a"},
	} {
		t.Run(name, func(t *testing.T) {
			p := crashing(pod(latest, ended(0, `{"reason":"Built"}`)))
			*p.Status.ContainerStatuses[0].LastTerminationState.Terminated = corev1.ContainerStateTerminated{
				ExitCode: test.code, Reason: test.reason, Message: test.said,
				StartedAt: metav1.Unix(1000, 0), FinishedAt: metav1.Unix(int64(1000+test.seconds), 0),
			}
			fn := function(1)
			got := status.Of(fn, seen(deployment(1, 0, latest), nil, p))
			if truth := truth(got); truth != "SourceValid Built Stalled" {
				t.Errorf("true conditions: %q", truth)
			}
			ready := meta.FindStatusCondition(got.Conditions, "Ready")
			if want := fmt.Sprintf("the function exited with code %d: %s", test.code, test.want); ready.Reason != "CrashLooping" || ready.Message != want {
				t.Errorf("Ready is %s: %q, want CrashLooping: %q", ready.Reason, ready.Message, want)
			}
			invariants(t, fn, got)
		})
	}
}
