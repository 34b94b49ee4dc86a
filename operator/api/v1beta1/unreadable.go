package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
)

// UnmarshalJSON reads a Function whose spec does not fit the type as one without a
// spec, and says so in spec.Unreadable. Such a Function is older than the schema, or
// has come to etcd another way. An error would make the list of all Functions
// unreadable, and every watch.
func (f *Function) UnmarshalJSON(data []byte) error {
	type plain Function
	err := kjson.UnmarshalCaseSensitivePreserveInts(data, (*plain)(f))
	if err == nil {
		return nil
	}
	var rest struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Status            FunctionStatus `json:"status"`
	}
	if kjson.UnmarshalCaseSensitivePreserveInts(data, &rest) != nil {
		return err
	}
	*f = Function{TypeMeta: rest.TypeMeta, ObjectMeta: rest.ObjectMeta, Status: rest.Status}
	f.Spec.Unreadable = err.Error()
	return nil
}
