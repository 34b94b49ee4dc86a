package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
)

// UnmarshalJSON decodes a Function. If the spec does not match the type, it leaves the spec empty
// and stores the error in spec.Unreadable. Such a Function is older than the schema, or was written
// to etcd directly. An error would break the list and the watches of all Functions.
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
