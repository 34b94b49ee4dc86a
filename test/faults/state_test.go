package faults

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// state describes the objects of a Function in a namespace, by kind and name, as text without
// what differs between two equal runs: times, UIDs, addresses and the name of the namespace.
type state map[string]string

// children returns the objects that belong to the Function, with the fields that the operator
// owns in them.
func (tr *trial) children() state {
	tr.t.Helper()
	fn := tr.fn()
	found := state{}
	for _, object := range world(tr.t).witness.all(tr.ns) {
		ref := metav1.GetControllerOf(object)
		if ref == nil || ref.Kind != "Function" {
			continue
		}
		text := normal(object)
		if fn != nil {
			text = strings.ReplaceAll(text, string(fn.UID), "UID")
		}
		found[object.GetKind()+"/"+object.GetName()] = text
	}
	return found
}

// objects returns only the children.
func (s state) objects() state {
	objects := maps.Clone(s)
	delete(objects, "status")
	return objects
}

// whole returns the children and the status of the Function.
func (tr *trial) whole() state {
	tr.t.Helper()
	found := tr.children()
	if object := world(tr.t).witness.live("Function", tr.ns, subject); object != nil {
		status, _, err := unstructured.NestedMap(object.Object, "status")
		tr.must(err)
		found["status"] = tr.normalStatus(status)
		if lost := tr.lostRevisions(status); len(lost) > 0 {
			found["lost revisions"] = strings.Join(lost, " ")
		}
	}
	return found
}

// lostRevisions returns the revisions in a status whose records do not exist: the status is written after
// records were deleted.
func (tr *trial) lostRevisions(status map[string]any) (lost []string) {
	revisions, _, err := unstructured.NestedSlice(status, "revisions")
	tr.must(err)
	for _, revision := range revisions {
		name := revision.(map[string]any)["name"].(string)
		if world(tr.t).witness.live(record, tr.ns, name) == nil {
			lost = append(lost, name)
		}
	}
	return lost
}

// normalStatus removes the times of conditions. It keeps whether a generation was observed, but
// not which: see truth. Of the revisions it keeps the state and the source of the newest, and whether
// that is the current one: the others are those that the operator has seen, and a name contains a
// hash of the namespace.
func (tr *trial) normalStatus(status map[string]any) string {
	conditions, _, err := unstructured.NestedSlice(status, "conditions")
	tr.must(err)
	for _, c := range conditions {
		delete(c.(map[string]any), "lastTransitionTime")
	}
	slices.SortFunc(conditions, func(a, b any) int {
		return strings.Compare(a.(map[string]any)["type"].(string), b.(map[string]any)["type"].(string))
	})
	copied := maps.Clone(status)
	copied["conditions"] = conditions
	delete(copied, "currentRevision")
	revisions, _, err := unstructured.NestedSlice(status, "revisions")
	tr.must(err)
	delete(copied, "revisions")
	if len(revisions) > 0 {
		newest := revisions[0].(map[string]any)
		copied["newest"] = map[string]any{"current": newest["name"] == status["currentRevision"], "source": newest["source"], "state": newest["state"]}
	}
	return strings.ReplaceAll(text(copied), tr.ns, "NAMESPACE")
}

// normal returns an object without its status, and without what differs between two runs.
func normal(object *unstructured.Unstructured) string {
	o := object.DeepCopy()
	unstructured.RemoveNestedField(o.Object, "status")
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	for _, field := range []string{"clusterIP", "clusterIPs"} {
		unstructured.RemoveNestedField(o.Object, "spec", field)
	}
	annotations := o.GetAnnotations()
	delete(annotations, "deployment.kubernetes.io/revision")
	o.SetAnnotations(annotations)
	o.Object["owned"] = ownedFields(object)
	s := strings.ReplaceAll(text(o.Object), object.GetNamespace(), "NAMESPACE")
	// The hash of a template that contains the name of the namespace.
	hash, _, _ := unstructured.NestedString(object.Object, "spec", "template", "metadata", "labels", "goless.io/template")
	if hash != "" {
		s = strings.ReplaceAll(s, hash, "HASH")
	}
	return s
}

// ownedFields returns the managed fields of the operator. Ownership of a map itself, apart from
// its entries, only shows whether the first write was a creation.
func ownedFields(object *unstructured.Unstructured) (owned []any) {
	for _, entry := range object.GetManagedFields() {
		if entry.Manager == "goless-operator" && entry.Subresource == "" {
			owned = append(owned, map[string]any{"operation": string(entry.Operation), "fields": strings.ReplaceAll(entry.FieldsV1.GetRawString(), `".":{},`, "")})
		}
	}
	return owned
}

func text(value any) string {
	out, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		panic(err) // it came as JSON
	}
	return string(out)
}

// like returns nil if a state equals the wanted one.
func (s state) like(want state) error {
	diff := ""
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if _, ok := s[key]; !ok {
			diff += "- " + key + "\n"
		} else if s[key] != want[key] {
			diff += key + ":\n" + cmp.Diff(strings.Split(want[key], "\n"), strings.Split(s[key], "\n"))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s)) {
		if _, ok := want[key]; !ok {
			diff += "+ " + key + "\n"
		}
	}
	if diff != "" {
		return fmt.Errorf("the state is another (-want +got):\n%s", diff)
	}
	return nil
}
