package readable_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"goless.io/builder/internal/readable"
)

func TestLines(t *testing.T) {
	const at = `"time":"2026-11-23T05:45:48.534014301Z"`
	local := time.Date(2026, 11, 23, 5, 45, 48, 0, time.UTC).Local().Format(time.TimeOnly)
	for name, c := range map[string]struct{ text, want string }{
		"Serving":    {`{"level":"info",` + at + `,"msg":"serving","faas.name":"h","address":"127.0.0.1:80","n":3}` + "\n", local + " INFO  serving address=127.0.0.1:80 n=3\n"},
		"Request":    {`{"level":"info",` + at + `,"msg":"request","faas.name":"h","http.request.method":"GET","url.path":"/x","http.response.status_code":200,"http.response.body.size":3,"duration":0.001234567,"network.peer.address":"127.0.0.1","request_id":"1","trace_id":"1","user":"me"}` + "\n", local + " INFO  GET /x 200 1.23ms user=me\n"},
		"Short":      {`{"level":"info",` + at + `,"msg":"request","http.request.method":"GET","url.path":"/","http.response.status_code":404,"duration":0.000020405}` + "\n", local + " INFO  GET / 404 20.405µs\n"},
		"Panic":      {`{"level":"error",` + at + `,"msg":"panic in the handler","exception.type":"x","exception.message":"no","exception.stacktrace":"goroutine 38 [running]:\nruntime/debug.Stack()\n\truntime/debug/stack.go:26 +0x5e\npanic({0x87e480?, 0xcff390?})\n\truntime/panic.go:860 +0x13a\nexample.com/m.F(...)\n\thello.yaml:15 +0x1\nnet/http.HandlerFunc.ServeHTTP(0x9483e8?)\n\tnet/http/server.go:2286 +0x29\n"}` + "\n", local + " ERROR panic: no\n    example.com/m.F(...)\n    \thello.yaml:15 +0x1\n"},
		"OwnRequest": {`{"level":"INFO",` + at + `,"msg":"request","path":"/a"}` + "\n", local + " INFO  request path=/a\n"},
		"OwnPanic":   {`{"level":"INFO",` + at + `,"msg":"panic in the handler","of":"b"}` + "\n", local + " INFO  panic in the handler of=b\n"},
		"Rest":       {`{"level":"INFO",` + at + `,"msg":"a"} and more` + "\n", `{"level":"INFO",` + at + `,"msg":"a"} and more` + "\n"},
		"Quoted":     {`{"level":"WARN",` + at + `,"msg":"two words","a":"b c","d":"","e":{"f":1}}` + "\n", local + ` WARN  two words a="b c" d="" e={"f":1}` + "\n"},
		"Others":     {"panic: x\n\n\ta.go:1\n{\n{}\n[1]\n{\"msg\":\"x\"}\nno end", "panic: x\n\n\ta.go:1\n{\n{}\n[1]\n{\"msg\":\"x\"}\nno end"},
		"TwoLines":   {`{"level":"info",` + at + `,"msg":"a"}` + "\nb\n", local + " INFO  a\nb\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, readable.Lines(c.text)); diff != "" {
				t.Errorf("Lines: -want +got\n%s", diff)
			}
		})
	}
}
