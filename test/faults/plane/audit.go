package plane

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
)

// Event is a line of the audit log: a completed request.
type Event struct {
	Stage     string
	Verb      string
	UserAgent string
	User      struct{ Username string }
	ObjectRef struct {
		Resource, Subresource, Namespace, Name string
	}
	ResponseStatus           struct{ Code int }
	RequestReceivedTimestamp time.Time
}

// Resource returns the resource with its subresource, such as functions/status.
func (e *Event) Resource() string {
	if e.ObjectRef.Subresource == "" {
		return e.ObjectRef.Resource
	}
	return e.ObjectRef.Resource + "/" + e.ObjectRef.Subresource
}

// IsWrite reports whether the request is a write.
func (e *Event) IsWrite() bool {
	switch e.Verb {
	case "get", "list", "watch":
		return false
	}
	return true
}

// Done reports whether the request succeeded.
func (e *Event) Done() bool { return e.ResponseStatus.Code < 300 }

func (e *Event) String() string {
	return fmt.Sprintf("%s %s %s %s/%s -> %d by %s", e.RequestReceivedTimestamp.Local().Format("15:04:05.000"),
		e.Verb, e.Resource(), e.ObjectRef.Namespace, e.ObjectRef.Name, e.ResponseStatus.Code, e.UserAgent)
}

// Audit calls f for each line of the audit log after the offset, and returns the new offset.
// The log contains all requests of the operator, and the writes of other clients to Functions
// and their objects.
func (p *Plane) Audit(from int64, f func(*Event)) (int64, error) {
	file, err := os.Open(p.path("audit.log"))
	if err != nil {
		return from, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	if _, err := file.Seek(from, io.SeekStart); err != nil {
		return from, err
	}
	lines := bufio.NewReaderSize(file, 1<<16)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF { // an incomplete line is still being written
			return from, nil
		}
		if err != nil {
			return from, err
		}
		from += int64(len(line))
		var event Event
		if err := json.Unmarshal(bytes.TrimSpace(line), &event); err != nil {
			return from, fmt.Errorf("reading the audit log: %w", err)
		}
		f(&event)
	}
}
