package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A phase is a step on the way to the first response. It ends at the time of the first, or the
// last, matching line in a log.
//
// In the patterns, NS and NAME are those of the deployed object, POD, FUNCTION and BUILD its
// pod and the IDs of its containers, and KEY the key of its binary in the build service.
type phase struct {
	name    string
	log     string
	pattern string
	last    bool
}

// phases are in their order. Most subjects do not have all of them.
var phases = []phase{
	{name: "source-stored", log: "audit", pattern: `"verb":"create".*"resource":"functions","namespace":"NS","name":"NAME"`},
	{name: "source-ordered", log: "service", pattern: `ordered KEY`},
	{name: "source-built", log: "service", pattern: `built KEY`},
	{name: "deployment-stored", log: "audit", pattern: `"verb":"(create|patch)".*"resource":"deployments","namespace":"NS","name":"NAME"`},
	{name: "pod-stored", log: "audit", pattern: `"verb":"create".*"resource":"pods","namespace":"NS","apiVersion"`},
	{name: "pod-scheduled", log: "audit", pattern: `"verb":"create".*"resource":"pods","namespace":"NS","name":"POD".*"subresource":"binding"`},
	{name: "pod-seen-by-kubelet", log: "kubelet", pattern: `SyncLoop ADD.*NS/POD"`},
	{name: "sandbox-begun", log: "containerd", pattern: `RunPodSandbox for name:\\"POD\\"`},
	{name: "sandbox-ready", log: "containerd", pattern: `RunPodSandbox for name:\\"POD\\".*returns sandbox id`},
	{name: "build-started", log: "containerd", pattern: `StartContainer for \\"BUILD\\" returns`},
	{name: "build-ended", log: "containerd", pattern: `container exit event container_id:\\"BUILD\\"`},
	{name: "function-started", log: "containerd", pattern: `StartContainer for \\"FUNCTION\\" returns`},
	{name: "binary-fetched", log: "service", pattern: `fetched KEY`},
	{name: "function-serving", log: "pod", pattern: `"msg":"serving"`},
	{name: "function-seen-by-kubelet", log: "kubelet", pattern: `ContainerStarted","Data":"FUNCTION"`},
	{name: "first-good-probe", log: "kubelet", pattern: `SyncLoop \(probe\)" probe="readiness" status="ready" pod="NS/POD"`},
	{name: "pod-ready-stored", log: "audit", pattern: `"verb":"patch".*"resource":"pods","namespace":"NS","name":"POD".*"subresource":"status"`, last: true},
}

// A trail contains the logs of the cluster about one first start.
type trail struct {
	bench   *bench
	subject subject
	object  client.Object
	started time.Time
	files   map[string]*logFile // those of the cluster's own daemons
}

// follow begins the trail of an object that is about to be created. It returns nil unless the
// logs of the cluster's daemons are on this machine.
func (b *bench) follow(s subject, object client.Object) (*trail, error) {
	audit := os.Getenv("GOLESS_CLUSTER_AUDIT_LOG")
	if audit == "" {
		return nil, nil
	}
	t := &trail{bench: b, subject: s, object: object, files: map[string]*logFile{}}
	logs := filepath.Dir(audit)
	for name, file := range map[string]*logFile{
		"audit":      {path: audit, stamp: auditStamp},
		"containerd": {path: filepath.Join(logs, "containerd.log"), stamp: containerdStamp},
		"kubelet":    {path: filepath.Join(logs, "kubelet.log"), stamp: kubeletStamp},
	} {
		if err := file.skip(); err != nil {
			return nil, err
		}
		t.files[name] = file
	}
	t.started = time.Now()
	return t, nil
}

// end records the end of each phase since the beginning of the trail.
func (t *trail) end(ctx context.Context) error {
	if t == nil {
		return nil
	}
	pod, err := t.pod(ctx)
	if err != nil {
		return err
	}
	logs := map[string][]entry{}
	for name, file := range t.files {
		if logs[name], err = file.entries(); err != nil {
			return err
		}
	}
	if logs["pod"], err = t.bench.podLog(ctx, pod.Namespace, pod.Name, "function", t.started); err != nil {
		return err
	}
	work, err := t.bench.serviceLog(ctx, t.started)
	if err != nil {
		return err
	}
	for _, w := range work {
		logs["service"] = append(logs["service"], w.entries()...)
	}
	names := strings.NewReplacer("NS", t.object.GetNamespace(), "NAME", t.object.GetName(), "POD", pod.Name,
		"FUNCTION", containerID(pod.Status.ContainerStatuses), "BUILD", containerID(pod.Status.InitContainerStatuses), "KEY", binaryKey(pod))
	for i, p := range phases {
		pattern, err := regexp.Compile(names.Replace(p.pattern))
		if err != nil {
			return err
		}
		if at := p.over(pattern, logs[p.log]); !at.IsZero() {
			t.bench.record(fmt.Sprintf("phase.%02d-%s.%s", i+1, p.name, t.subject.name), at.Sub(t.started).Seconds())
		}
	}
	return nil
}

// over returns the time of the line, or the zero time if there is none.
func (p phase) over(pattern *regexp.Regexp, log []entry) (at time.Time) {
	for _, e := range log {
		if pattern.MatchString(e.text) {
			at = e.at
			if !p.last {
				break
			}
		}
	}
	return at
}

// pod returns the only pod of the deployed object.
func (t *trail) pod(ctx context.Context) (*corev1.Pod, error) {
	var pods corev1.PodList
	if err := t.bench.client.List(ctx, &pods, client.InNamespace(t.object.GetNamespace())); err != nil {
		return nil, err
	}
	for _, pod := range pods.Items {
		if strings.HasPrefix(pod.Name, t.object.GetName()+"-") && pod.DeletionTimestamp == nil {
			return &pod, nil
		}
	}
	return nil, fmt.Errorf("there is no pod of %s", t.object.GetName())
}

// containerID returns the ID of the only container in containerd, or a name that matches
// nothing.
func containerID(statuses []corev1.ContainerStatus) string {
	if len(statuses) == 0 {
		return "none"
	}
	_, id, _ := strings.Cut(statuses[0].ContainerID, "://")
	return id
}

// comparePhase adds the median of a phase, and that of the plain Deployment if it has the same
// phase.
func (b *bench) comparePhase(kind string) {
	samples := b.samples[kind]
	plain := b.samples[strings.TrimSuffix(kind, filepath.Ext(kind))+".plain"]
	if len(plain) == 0 {
		b.results.add(kind, median(samples), "s", len(samples))
	} else {
		b.results.addRatio(kind, median(samples), median(plain), "s", len(samples))
	}
}

// phaseTable prints the ends of the phases, one per row, with a column for each subject, in
// milliseconds since the beginning.
func (r results) phaseTable(w io.Writer) error {
	cells, subjects := map[string]map[string]float64{}, map[string]bool{}
	for _, one := range r {
		parts := strings.Split(one.Name, ".")
		if parts[0] != "phase" || len(parts) != 3 || one.Error != "" {
			continue
		}
		if cells[parts[1]] == nil {
			cells[parts[1]] = map[string]float64{}
		}
		cells[parts[1]][parts[2]] = one.Value * 1000
		subjects[parts[2]] = true
	}
	if len(cells) == 0 {
		return nil
	}
	columns := slices.Sorted(maps.Keys(subjects))
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "\nMILLISECONDS UNTIL\t%s\t\n", strings.Join(columns, "\t"))
	for _, name := range slices.Sorted(maps.Keys(cells)) {
		fmt.Fprintf(table, "%s", name)
		for _, subject := range columns {
			if at, ok := cells[name][subject]; ok {
				fmt.Fprintf(table, "\t%.0f", at)
			} else {
				fmt.Fprintf(table, "\t-")
			}
		}
		fmt.Fprintf(table, "\t\n")
	}
	return table.Flush()
}

// binaryKey returns the key of a pod's binary in the log of the build service, or a text that
// never occurs in it.
func binaryKey(pod *corev1.Pod) string {
	for _, v := range pod.Spec.Containers[0].Env {
		if v.Name == "FUNCTION_BINARY" && len(v.Value) > 12 { // a pod that compiles has it, and empty
			return v.Value[:12]
		}
	}
	return "none"
}
