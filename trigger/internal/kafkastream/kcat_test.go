package kafkastream

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
)

// A Kafka client of another library writes the records, reads the dead letters, and continues in
// the group after the consumer has ended.
func TestKcat(t *testing.T) {
	if _, err := exec.LookPath("kcat"); err != nil {
		t.Skip("kcat is not installed: make unit installs it")
	}
	withBrokers(t, func(t *testing.T, b brokers) {
		c, f := b.topic(t, 3), newFunction(t)
		f.answer = func(key string, n int) int {
			if key == "key-1" {
				return http.StatusUnprocessableEntity
			}
			return http.StatusOK
		}
		_, end := start(t, c, f, deadLetter(c.Topic))
		b.kcat(t, numbered(0, 20, 3), "-P", "-t", c.Topic, "-K:")
		f.await(40)
		letters := b.kcat(t, "", "-C", "-t", deadLetter(c.Topic), "-o", "beginning", "-c20", "-f", `%k:%s %h\n`)
		b.awaitCommitted(t, c, 60)
		end()
		for n, letter := range strings.Split(strings.TrimSpace(letters), "\n") {
			want := fmt.Sprintf("key-1:%d ", n)
			if !strings.HasPrefix(letter, want) || !strings.Contains(letter, reasonHeader+"=the response was 422 Unprocessable Entity") {
				t.Errorf("kcat reads the dead letter %q, want %q and the reason", letter, want)
			}
		}
		b.kcat(t, numbered(20, 22, 3), "-P", "-t", c.Topic, "-K:")
		got := strings.Split(strings.TrimSpace(b.kcat(t, "", "-c6", "-f", `%k:%s\n`, "-G", c.Group, c.Topic)), "\n")
		want := strings.Split(strings.TrimSpace(numbered(20, 22, 3)), "\n")
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("what kcat reads in the same group (-want +got):\n%s", diff)
		}
		f.check()
	})
}

// awaitCommitted waits until the group has committed n records of the topic.
func (b brokers) awaitCommitted(t *testing.T, c *Consumer, n int64) {
	t.Helper()
	admin := kadm.NewClient(b.client(t))
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		offsets, err := admin.FetchOffsetsForTopics(t.Context(), c.Group, c.Topic)
		var committed int64
		offsets.Each(func(o kadm.OffsetResponse) { committed += max(o.At, 0) }) // -1 before the first commit
		if err == nil && committed == n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after a minute %d records are committed, want %d: %v", committed, n, err)
		}
	}
}

// numbered returns the input for kcat: the records of a range of numbers, for each of some keys.
func numbered(from, to, keys int) string {
	var lines strings.Builder
	for n := from; n < to; n++ {
		for key := range keys {
			fmt.Fprintf(&lines, "key-%d:%d\n", key, n)
		}
	}
	return lines.String()
}

// kcat runs kcat with the brokers and returns its output.
func (b brokers) kcat(t *testing.T, input string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "kcat", append([]string{"-q", "-b", strings.Join(b.addresses, ",")}, args...)...)
	var output, complaints bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(input), &output, &complaints
	if err := command.Run(); err != nil {
		t.Fatalf("%v: %v: %s", command, err, complaints.String())
	}
	return output.String()
}
