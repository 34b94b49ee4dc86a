// Package revisions parses the recorded revisions of a Function, compares them, and computes the
// patch of a rollback to one of them. The operator records each revision in a ControllerRevision,
// and its source in a ConfigMap. The package does not access the cluster.
package revisions

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// notVersioned are the fields of a spec that do not affect the pods. They are not recorded, and a
// rollback keeps them: for example, it does not scale the function. Package desired of the operator
// has the same list.
var notVersioned = []string{"service", "appProtocol", "replicas", "scaling", "rollout", "revisionHistoryLimit", "progressDeadlineSeconds"}

// notVersionedOfBuild are the fields of spec.build that do not affect the pods.
var notVersionedOfBuild = []string{"test", "testEnv"}

// sourceField is the field of a spec with the source.
const sourceField = "function"

// Labels and annotations that belong to revisions: those with podPrefix, which the operator copies to
// pods, and upgradeAnnotation, which makes a function adopt changes of the operator. Others belong to
// revisions only if a record contains them.
const (
	podPrefix         = "pod.goless.io/"
	upgradeAnnotation = "goless.io/upgrade"
)

// Manager is the field manager of a rollback.
const Manager = "goless-builder"

// A Revision is a version of a Function. It is recorded unless Name is empty.
type Revision struct {
	// Name is the name of the ControllerRevision; empty for the latest spec if it is not recorded,
	// because it is being compiled or is invalid.
	Name string

	// Number increases with each change. A revision to which the Function returns gets a new one.
	Number int64

	// Created is the time when the revision was recorded.
	Created time.Time

	// State is the state in the status of the Function, and Reason is why the revision failed. Both
	// are empty for a revision that the status does not list, because it lists only the newest ones.
	State, Reason string

	// Spec contains the fields of the spec that affect the pods, without the source. It is nil if
	// the operator did not know the spec when it recorded the revision.
	Spec map[string]any

	// Labels and Annotations are those that affect the pods.
	Labels, Annotations map[string]string

	// ConfigMap is the name of the ConfigMap with the source, and SHA256 the hash of the source, in
	// hexadecimal.
	ConfigMap, SHA256 string

	// Source is the source. It is empty for a recorded revision until SetSource is called.
	Source string
}

// String returns how messages name the revision.
func (r *Revision) String() string {
	if r.Name == "" {
		return "the latest spec"
	}
	return "revision " + strconv.FormatInt(r.Number, 10)
}

// SetSource sets the source. The error reports that it is not the source that was recorded.
func (r *Revision) SetSource(source string) error {
	if hashOf(source) != r.SHA256 {
		return fmt.Errorf("ConfigMap %s does not contain the source that was recorded for %s", r.ConfigMap, r)
	}
	r.Source = source
	return nil
}

func hashOf(source string) string {
	sum := sha256.Sum256([]byte(source))
	return hex.EncodeToString(sum[:])
}

// History is a Function with its recorded revisions.
type History struct {
	// Revisions are the recorded revisions, the newest first.
	Revisions []Revision

	// Managers are the field managers, other than kubectl and this program, that set the spec of
	// the Function, such as kustomize-controller. They may set it again after a rollback.
	Managers []string

	object object
	// labels and annotations contain the names of those that belong to revisions.
	labels, annotations map[string]bool
}

// object contains the fields of a Function that this package uses.
type object struct {
	Metadata struct {
		Name          string            `json:"name"`
		UID           string            `json:"uid"`
		Generation    int64             `json:"generation"`
		Labels        map[string]string `json:"labels"`
		Annotations   map[string]string `json:"annotations"`
		ManagedFields []struct {
			Manager     string         `json:"manager"`
			Subresource string         `json:"subresource"`
			FieldsV1    map[string]any `json:"fieldsV1"`
		} `json:"managedFields"`
	} `json:"metadata"`
	Spec   map[string]any `json:"spec"`
	Status struct {
		ObservedGeneration int64  `json:"observedGeneration"`
		CurrentRevision    string `json:"currentRevision"`
		Revisions          []struct {
			Name   string `json:"name"`
			State  string `json:"state"`
			Reason string `json:"reason"`
		} `json:"revisions"`
	} `json:"status"`
}

// record contains the fields of a ControllerRevision that this package uses.
type record struct {
	Metadata struct {
		Name              string    `json:"name"`
		CreationTimestamp time.Time `json:"creationTimestamp"`
		OwnerReferences   []struct {
			UID        string `json:"uid"`
			Controller bool   `json:"controller"`
		} `json:"ownerReferences"`
	} `json:"metadata"`
	Revision int64 `json:"revision"`
	Data     struct {
		Spec        map[string]any    `json:"spec"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
		Source      string            `json:"source"`
		SHA256      string            `json:"sha256"`
	} `json:"data"`
}

// Parse returns the history of a Function. function is the JSON of the Function with its managed
// fields, and records is that of a list of ControllerRevisions; those of other owners are ignored.
func Parse(function, records []byte) (*History, error) {
	h := &History{labels: map[string]bool{}, annotations: map[string]bool{upgradeAnnotation: true}}
	if err := decode(function, &h.object); err != nil {
		return nil, fmt.Errorf("reading the Function: %w", err)
	}
	var list struct {
		Items []record `json:"items"`
	}
	if err := decode(records, &list); err != nil {
		return nil, fmt.Errorf("reading its ControllerRevisions: %w", err)
	}
	for _, r := range list.Items {
		for _, owner := range r.Metadata.OwnerReferences {
			if owner.Controller && owner.UID == h.object.Metadata.UID {
				h.add(r)
			}
		}
	}
	slices.SortStableFunc(h.Revisions, func(a, b Revision) int {
		return cmp.Or(cmp.Compare(b.Number, a.Number), b.Created.Compare(a.Created))
	})
	for _, entry := range h.object.Metadata.ManagedFields {
		_, spec := entry.FieldsV1["f:spec"]
		if spec && entry.Subresource == "" && !strings.HasPrefix(entry.Manager, "kubectl") && entry.Manager != Manager {
			h.Managers = append(h.Managers, entry.Manager)
		}
	}
	slices.Sort(h.Managers)
	h.Managers = slices.Compact(h.Managers)
	return h, nil
}

// decode decodes JSON and keeps the digits of numbers.
func decode(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(into)
}

func (h *History) add(r record) {
	added := Revision{
		Name: r.Metadata.Name, Number: r.Revision, Created: r.Metadata.CreationTimestamp,
		Spec: r.Data.Spec, Labels: r.Data.Labels, Annotations: r.Data.Annotations, ConfigMap: r.Data.Source, SHA256: r.Data.SHA256,
	}
	for _, s := range h.object.Status.Revisions {
		if s.Name == added.Name {
			added.State, added.Reason = s.State, s.Reason
		}
	}
	for name := range added.Labels {
		h.labels[name] = true
	}
	for name := range added.Annotations {
		h.annotations[name] = true
	}
	h.Revisions = append(h.Revisions, added)
}

// Current returns the recorded revision of the latest spec; nil if that is not recorded.
func (h *History) Current() *Revision {
	status := h.object.Status
	if status.ObservedGeneration != h.object.Metadata.Generation || status.CurrentRevision == "" {
		return nil
	}
	i := slices.IndexFunc(h.Revisions, func(r Revision) bool { return r.Name == status.CurrentRevision })
	if i < 0 {
		return nil
	}
	return &h.Revisions[i]
}

// Generation returns the generation of the Function, which each change of its spec increases.
func (h *History) Generation() int64 { return h.object.Metadata.Generation }

// Latest returns the current revision, with its source. If the latest spec is not recorded, the
// result is made from the Function.
func (h *History) Latest() *Revision {
	source, _ := h.object.Spec[sourceField].(string)
	if current := h.Current(); current != nil {
		current.Source = source
		return current
	}
	latest := &Revision{
		Spec:        versioned(h.object.Spec),
		Labels:      withNames(h.object.Metadata.Labels, h.labels),
		Annotations: withNames(h.object.Metadata.Annotations, h.annotations),
		SHA256:      hashOf(source),
		Source:      source,
	}
	delete(latest.Spec, sourceField)
	return latest
}

// withNames returns the labels or annotations that belong to revisions.
func withNames(all map[string]string, names map[string]bool) map[string]string {
	some := map[string]string{}
	for name, value := range all {
		if names[name] || strings.HasPrefix(name, podPrefix) {
			some[name] = value
		}
	}
	return some
}

// Find returns the revision with a number, or with the name of a ControllerRevision.
func (h *History) Find(id string) (*Revision, error) {
	var numbers []string
	for i, r := range h.Revisions {
		number := strconv.FormatInt(r.Number, 10)
		if r.Name == id || number == id {
			return &h.Revisions[i], nil
		}
		numbers = append(numbers, number)
	}
	return nil, fmt.Errorf("%s has no revision %q; it has: %s", h.object.Metadata.Name, id, cmp.Or(strings.Join(numbers, ", "), "none"))
}

// Former returns the newest revision that differs from the latest spec and has one of the given
// states, or any state if none are given; nil if there is none. Revisions whose spec is unknown are
// left out.
func (h *History) Former(states ...string) *Revision {
	latest := h.Latest()
	for i := range h.Revisions {
		r := &h.Revisions[i]
		if r.Spec != nil && (len(states) == 0 || slices.Contains(states, r.State)) && len(Changes(r, latest)) > 0 {
			return r
		}
	}
	return nil
}

// Target returns the default revision of a rollback: the newest one that has served or whose state
// is unknown, because the status does not list it; otherwise the newest one that has not failed;
// nil if there is none. It differs from the latest spec.
func (h *History) Target() *Revision {
	return cmp.Or(h.Former("Serving", "Superseded", ""), h.Former("Starting", "Skipped"))
}

// Changes returns what differs between two revisions: source, the names of the fields of the spec,
// labels and annotations.
func Changes(older, newer *Revision) (all []string) {
	if older.SHA256 != newer.SHA256 {
		all = append(all, "source")
	}
	names := maps.Clone(older.Spec)
	maps.Copy(names, newer.Spec)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !reflect.DeepEqual(older.Spec[name], newer.Spec[name]) {
			all = append(all, name)
		}
	}
	if !maps.Equal(older.Labels, newer.Labels) {
		all = append(all, "labels")
	}
	if !maps.Equal(older.Annotations, newer.Annotations) {
		all = append(all, "annotations")
	}
	return all
}

// YAML returns the labels, the annotations and the spec of a revision, without the source.
func (r *Revision) YAML() ([]byte, error) {
	content := map[string]any{}
	if len(r.Labels) > 0 {
		content["labels"] = r.Labels
	}
	if len(r.Annotations) > 0 {
		content["annotations"] = r.Annotations
	}
	if len(r.Spec) > 0 {
		content["spec"] = withoutNumbers(r.Spec)
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	err := encoder.Encode(content)
	return out.Bytes(), err
}

// withoutNumbers returns decoded JSON with numbers that YAML does not write as text.
func withoutNumbers(content any) any {
	switch content := content.(type) {
	case map[string]any:
		all := map[string]any{}
		for name, value := range content {
			all[name] = withoutNumbers(value)
		}
		return all
	case []any:
		all := make([]any, len(content))
		for i, value := range content {
			all[i] = withoutNumbers(value)
		}
		return all
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: content.String()}
	}
	return content
}

// operation is an operation of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// Rollback returns the JSON patch that gives the Function the spec of a revision, whose source must
// be set; nil if the Function already has that spec. The patch changes only fields that belong to
// revisions and differ. The API server rejects it if the spec has changed since the Function was
// read.
func (h *History) Rollback(r *Revision) ([]byte, error) {
	if r.Spec == nil {
		return nil, fmt.Errorf("%s does not contain a spec: an earlier release of the operator recorded it; apply its source, which ConfigMap %s contains", r, r.ConfigMap)
	}
	latest := h.Latest()
	want, has := h.withTests(r.Spec), withoutFields(h.object.Spec, notVersioned)
	want[sourceField] = r.Source
	patch := slices.Concat(
		changes("/spec", has, want),
		metadataChanges("/metadata/labels", h.object.Metadata.Labels, latest.Labels, r.Labels),
		metadataChanges("/metadata/annotations", h.object.Metadata.Annotations, latest.Annotations, r.Annotations),
	)
	if len(patch) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(append([]operation{
		{"test", "/metadata/uid", h.object.Metadata.UID}, {"test", "/metadata/generation", h.Generation()},
	}, patch...))
	return escaped(text), err
}

// withTests returns the spec of a revision with the fields of spec.build that the Function keeps.
func (h *History) withTests(spec map[string]any) map[string]any {
	current, _ := h.object.Spec["build"].(map[string]any)
	recorded, _ := spec["build"].(map[string]any)
	build := withoutFields(recorded, notVersionedOfBuild)
	for _, name := range notVersionedOfBuild {
		if value, ok := current[name]; ok {
			if build == nil {
				build = map[string]any{}
			}
			build[name] = value
		}
	}
	spec = maps.Clone(spec)
	if build != nil {
		spec["build"] = build
	}
	return spec
}

// versioned returns the fields of a spec that belong to revisions, and the source.
func versioned(spec map[string]any) map[string]any {
	spec = withoutFields(spec, notVersioned)
	if build, ok := spec["build"].(map[string]any); ok {
		if build = withoutFields(build, notVersionedOfBuild); len(build) == 0 {
			delete(spec, "build")
		} else {
			spec["build"] = build
		}
	}
	return spec
}

func withoutFields(spec map[string]any, names []string) map[string]any {
	spec = maps.Clone(spec)
	for _, name := range names {
		delete(spec, name)
	}
	return spec
}

// changes returns the operations that change the fields of the object at path.
func changes[V any](path string, has, want map[string]V) (all []operation) {
	pointer := func(name string) string {
		return path + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if value, ok := has[name]; !ok || !reflect.DeepEqual(value, want[name]) {
			all = append(all, operation{"add", pointer(name), want[name]})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(has)) {
		if _, ok := want[name]; !ok {
			all = append(all, operation{Op: "remove", Path: pointer(name)})
		}
	}
	return all
}

// metadataChanges returns the operations that change the labels or annotations that belong to
// revisions from has to want. all are those of the Function.
func metadataChanges(path string, all, has, want map[string]string) []operation {
	if all == nil && len(want) > 0 {
		return []operation{{"add", path, want}}
	}
	present := map[string]string{}
	for name := range has {
		if value, ok := all[name]; ok {
			present[name] = value
		}
	}
	return changes(path, present, want)
}

// escaped returns JSON with escapes for the characters that YAML does not allow or replaces, because
// kubectl parses a JSON patch as YAML. YAML has no escapes for those above U+FFFF, and allows them.
func escaped(text []byte) []byte {
	var out strings.Builder
	for _, r := range string(text) {
		if r < 0x7f || r > 0xffff {
			out.WriteRune(r)
		} else {
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return []byte(out.String())
}
