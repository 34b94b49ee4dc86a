package main

import (
	"bytes"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Types of the API, with the fields that autoscalers read.
type (
	podMetricsList struct {
		metav1.TypeMeta
		metav1.ListMeta `json:"metadata"`
		Items           []podMetrics `json:"items"`
	}
	podMetrics struct {
		metav1.ObjectMeta `json:"metadata"`
		Timestamp         metav1.Time        `json:"timestamp"`
		Window            metav1.Duration    `json:"window"`
		Containers        []containerMetrics `json:"containers"`
	}
	containerMetrics struct {
		Name  string              `json:"name"`
		Usage corev1.ResourceList `json:"usage"`
	}
)

// usage contains the measurements. Its zero value is ready for use.
type usage struct {
	mu   sync.Mutex
	seen map[string]map[container]measured // by node
}

type container struct{ namespace, pod, name string }

// measured contains the two latest measurements of a container. before is zero if there is only
// one.
type measured struct{ before, now measurement }

type measurement struct {
	at      time.Time
	seconds float64 // of processor time, since its start
	memory  float64 // bytes
}

// add adds the response of a kubelet at /metrics/resource.
func (u *usage) add(node string, text []byte) error {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return err
	}
	latest := map[container]measurement{}
	for _, m := range families["container_cpu_usage_seconds_total"].GetMetric() {
		latest[containerOf(m)] = measurement{at: time.UnixMilli(m.GetTimestampMs()), seconds: valueOf(m)}
	}
	for _, m := range families["container_memory_working_set_bytes"].GetMetric() {
		if l, ok := latest[containerOf(m)]; ok {
			l.memory = valueOf(m)
			latest[containerOf(m)] = l
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	all := map[container]measured{}
	for c, now := range latest {
		m := u.seen[node][c]
		switch {
		case now.seconds < m.now.seconds: // the container has started again
			m = measured{now: now}
		case now.at.After(m.now.at):
			m = measured{before: m.now, now: now}
		}
		all[c] = m
	}
	if u.seen == nil {
		u.seen = map[string]map[container]measured{}
	}
	u.seen[node] = all
	return nil
}

// of returns the use of a pod between the two latest measurements, and false if there are
// fewer.
func (u *usage) of(namespace, pod string) (podMetrics, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	result := podMetrics{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod}}
	for _, containers := range u.seen {
		for c, m := range containers {
			if c.namespace != namespace || c.pod != pod || m.before.at.IsZero() {
				continue
			}
			window := m.now.at.Sub(m.before.at)
			cores := (m.now.seconds - m.before.seconds) / window.Seconds()
			result.Timestamp, result.Window = metav1.NewTime(m.now.at), metav1.Duration{Duration: window}
			result.Containers = append(result.Containers, containerMetrics{Name: c.name, Usage: corev1.ResourceList{
				corev1.ResourceCPU:    *resource.NewScaledQuantity(int64(cores*1e9), resource.Nano),
				corev1.ResourceMemory: *resource.NewQuantity(int64(m.now.memory), resource.BinarySI),
			}})
		}
	}
	return result, len(result.Containers) > 0
}

func containerOf(m *dto.Metric) (c container) {
	for _, l := range m.GetLabel() {
		switch l.GetName() {
		case "namespace":
			c.namespace = l.GetValue()
		case "pod":
			c.pod = l.GetValue()
		case "container":
			c.name = l.GetValue()
		}
	}
	return c
}

// valueOf returns the value of a kubelet's metric, which is a counter or a gauge.
func valueOf(m *dto.Metric) float64 {
	if m.GetCounter() != nil {
		return m.GetCounter().GetValue()
	}
	return m.GetGauge().GetValue()
}
