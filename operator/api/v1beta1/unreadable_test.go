package v1beta1_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"goless.io/operator/api/v1beta1"
)

// A Function whose spec cannot be decoded does not prevent the rest of a list from being decoded.
func TestUnreadable(t *testing.T) {
	for name, spec := range map[string]string{
		"Word": `{"function":"a","replicas":"many"}`, "Huge": `{"replicas":1099511627776}`,
		"Time": `{"timeout":"later"}`, "Map": `{"env":{"A":"b"}}`, "Text": `"a"`, "List": `[]`,
	} {
		t.Run(name, func(t *testing.T) {
			text := `{"items":[{"metadata":{"name":"bad","uid":"1"},"status":{"url":"here"},"spec":` + spec + `},{"metadata":{"name":"good"},"spec":{"function":"b"}}]}`
			var list v1beta1.FunctionList
			if err := json.Unmarshal([]byte(text), &list); err != nil {
				t.Fatal(err)
			}
			bad, good := list.Items[0], list.Items[1]
			if bad.Name != "bad" || bad.UID != "1" || bad.Status.URL != "here" || bad.Spec.Function != "" || !strings.Contains(bad.Spec.Unreadable, "cannot unmarshal") && !strings.Contains(bad.Spec.Unreadable, "duration") {
				t.Errorf("undecodable Function: %+v", bad)
			}
			if good.Spec.Function != "b" || good.Spec.Unreadable != "" {
				t.Errorf("valid Function: %+v", good)
			}
		})
	}
	var fn v1beta1.Function
	if err := json.Unmarshal([]byte(`{"metadata":{"name":1}}`), &fn); err == nil {
		t.Error("no error for an invalid name")
	}
}

// A Function is equal to itself after it is encoded and decoded, except for spec.Unreadable, which
// is not encoded.
func TestReadable(t *testing.T) {
	fn := v1beta1.Function{Spec: v1beta1.FunctionSpec{Function: "a", Replicas: new(int32(0)), Unreadable: "not written"}}
	text, err := json.Marshal(&fn)
	if err != nil {
		t.Fatal(err)
	}
	var again v1beta1.Function
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	fn.Spec.Unreadable = ""
	if diff := cmp.Diff(fn, again); diff != "" {
		t.Error(diff)
	}
}
