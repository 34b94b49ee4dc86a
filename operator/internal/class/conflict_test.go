package class

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
)

// Two default classes conflict if both apply to an existing namespace, and both report it.
func TestConflict(t *testing.T) {
	class := func(name string, second int64, teams ...string) v1beta1.FunctionClass {
		c := v1beta1.FunctionClass{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(second, 0)}}
		if len(teams) > 0 {
			c.Spec.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: metav1.LabelSelectorOpIn, Values: teams}}}
		}
		return c
	}
	invalid := class("invalid", 9, "a")
	invalid.Spec.NamespaceSelector.MatchExpressions[0].Operator = "Is"
	var existing []metav1.PartialObjectMetadata
	for i, team := range []string{"d", "c", "b", "b", "a"} {
		existing = append(existing, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", team, i), Labels: map[string]string{"team": team}}})
	}
	for name, test := range map[string]struct {
		class  v1beta1.FunctionClass
		others []v1beta1.FunctionClass
		want   string // prefix
	}{
		"Alone":       {class("x", 1), nil, ""},
		"Apart":       {class("x", 1, "a"), []v1beta1.FunctionClass{class("y", 2, "b", "c")}, ""},
		"NoNamespace": {class("x", 1, "e"), []v1beta1.FunctionClass{class("y", 2)}, ""},
		"Invalid":     {class("x", 1), []v1beta1.FunctionClass{invalid}, ""},
		"Newer":       {class("x", 2, "a"), []v1beta1.FunctionClass{class("y", 1)}, "more than one FunctionClass is the default of namespace a-4: x, y;"},
		"Older":       {class("y", 1), []v1beta1.FunctionClass{class("x", 2, "a")}, "more than one FunctionClass is the default of namespace a-4: x, y;"},
		"Everywhere":  {class("x", 1), []v1beta1.FunctionClass{class("y", 2)}, "more than one FunctionClass is the default of namespace a-4, b-2, b-3 and 2 more: y, x;"},
		"ThreeOfThem": {class("x", 1), []v1beta1.FunctionClass{class("y", 2, "a"), class("z", 3, "b", "a")}, "more than one FunctionClass is the default of namespace a-4, b-2, b-3: z, y, x;"},
		"OthersApart": {class("x", 1, "a"), []v1beta1.FunctionClass{class("y", 2, "a"), class("z", 3, "b")}, "more than one FunctionClass is the default of namespace a-4: y, x;"},
	} {
		got := conflict(&test.class, test.others, existing)
		if (got == "") != (test.want == "") || !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
