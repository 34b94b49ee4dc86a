package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// An entry is a line of a log and its time.
type entry struct {
	at   time.Time
	text string
}

// A logFile is a log of a daemon of the cluster.
type logFile struct {
	path   string
	stamp  stamp
	offset int64
}

// A stamp is the format of the time in the lines of a log.
type stamp struct {
	pattern *regexp.Regexp // its first group is the time
	layout  string
	parse   func(layout, text string) (time.Time, error)
}

var (
	auditStamp      = stamp{regexp.MustCompile(`"stageTimestamp":"([^"]+)"`), time.RFC3339Nano, time.Parse}
	containerdStamp = stamp{regexp.MustCompile(`^time="([^"]+)"`), time.RFC3339Nano, time.Parse}
	kubeletStamp    = stamp{regexp.MustCompile(`^[IWEF](\d{4} \d\d:\d\d:\d\d\.\d+)`), "0102 15:04:05.000000", thisYear}
	containerStamp  = stamp{regexp.MustCompile(`^(\S+) `), time.RFC3339Nano, time.Parse} // as the API returns it with timestamps
)

// thisYear parses a local time without a year.
func thisYear(layout, text string) (time.Time, error) {
	at, err := time.ParseInLocation(layout, text, time.Local)
	return at.AddDate(time.Now().Year(), 0, 0), err
}

// skip skips the current contents of the file.
func (f *logFile) skip() error {
	info, err := os.Stat(f.path)
	if err != nil {
		return err
	}
	f.offset = info.Size()
	return nil
}

// entries returns the entries since skip, or of the whole file if it was truncated since then.
func (f *logFile) entries() ([]entry, error) {
	file, err := os.Open(f.path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	if info, err := file.Stat(); err != nil {
		return nil, err
	} else if info.Size() < f.offset {
		f.offset = 0
	}
	if _, err := file.Seek(f.offset, io.SeekStart); err != nil {
		return nil, err
	}
	return f.stamp.entries(file)
}

// entries returns the lines that contain a time.
func (s stamp) entries(r io.Reader) ([]entry, error) {
	var all []entry
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		match := s.pattern.FindStringSubmatch(lines.Text())
		if match == nil {
			continue
		}
		at, err := s.parse(s.layout, match[1])
		if err != nil {
			return nil, err
		}
		all = append(all, entry{at, lines.Text()})
	}
	return all, lines.Err()
}

// podLog returns the log of a container since a time.
func (b *bench) podLog(ctx context.Context, namespace, pod, container string, since time.Time) ([]entry, error) {
	text, err := b.clientset.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{
		Container: container, Timestamps: true, SinceTime: &metav1.Time{Time: since},
	}).DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the log of pod %s: %w", pod, err)
	}
	all, err := containerStamp.entries(bytes.NewReader(text))
	return slices.DeleteFunc(all, func(e entry) bool { return e.at.Before(since) }), err // the API knows whole seconds
}

// serviceLog returns the logs of all replicas of the build service since a time.
func (b *bench) serviceLog(ctx context.Context, since time.Time) ([]work, error) {
	var pods corev1.PodList
	err := b.client.List(ctx, &pods, client.InNamespace("goless-system"), client.MatchingLabels{"app.kubernetes.io/name": "goless-build"})
	if err != nil {
		return nil, err
	}
	var all []work
	for _, pod := range pods.Items {
		log, err := b.podLog(ctx, pod.Namespace, pod.Name, "", since)
		if err != nil {
			return nil, err
		}
		for _, e := range log {
			_, text, _ := strings.Cut(e.text, " ")
			w := work{at: e.at}
			if err := json.Unmarshal([]byte(text), &w); err != nil {
				return nil, fmt.Errorf("reading the log of pod %s: %w: %s", pod.Name, err, text)
			}
			all = append(all, w)
		}
	}
	return all, nil
}

// work is a line in the log of the build service about finished work.
type work struct {
	at        time.Time
	Msg       string // "build" or "fetch"
	Namespace string // of a build
	Key       string // the beginning of that of the binary
	Waited    span   // in the queue, or for the binary
	Duration  span   // of the work
}

// began returns the time of the order.
func (w work) began() time.Time { return w.at.Add(-time.Duration(w.Duration + w.Waited)) }

// entries returns the phases in the line.
func (w work) entries() []entry {
	if w.Msg == "fetch" {
		return []entry{{w.at, "fetched " + w.Key}}
	}
	return []entry{{w.began(), "ordered " + w.Key}, {w.at, "built " + w.Key}}
}

// A span is a duration in a human-readable format.
type span time.Duration

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *span) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	*s = span(d)
	return err
}

// recordBuilds records how many builds of the namespace the build service has finished since a
// time.
func (b *bench) recordBuilds(ctx context.Context, s subject, since time.Time) error {
	log, err := b.serviceLog(ctx, since)
	if err != nil {
		return err
	}
	n := 0
	for _, w := range log {
		if w.Msg == "build" && w.Namespace == b.namespace && w.began().After(since) {
			n++
		}
	}
	b.record("compiles."+s.name, float64(n))
	return nil
}
