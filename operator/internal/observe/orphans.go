package observe

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
)

// orphans returns the objects that the operator has applied for a Function of this name and that
// have lost their owner: after a restore from a backup, or because the Function was deleted with
// kubectl delete --cascade=orphan.
func orphans(fn *v1beta1.Function, objects ...client.Object) []client.Object {
	return slices.DeleteFunc(objects, func(object client.Object) bool { return !isOrphan(fn, object) })
}

// isOrphan reports whether an object is an orphan of a Function: it has no owner, the labels of the Function,
// and fields that the operator has applied. This protects objects that have the labels by accident. It does not
// protect against a client that may write in the namespace, which can choose the name of its field manager. The
// access policy of deploy/40-access-policy.yaml enforces a weaker form: it does not check the label managed-by.
func isOrphan(fn *v1beta1.Function, object client.Object) bool {
	if object.GetUID() == "" || object.GetDeletionTimestamp() != nil || len(object.GetOwnerReferences()) > 0 {
		return false
	}
	labels := object.GetLabels()
	ours := labels[desired.FunctionLabel] == fn.Name && labels[desired.ManagedByLabel] == desired.ManagedBy
	return ours && slices.ContainsFunc(object.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == desired.FieldOwner && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == ""
	})
}

// pointers returns the objects of a list.
func pointers[T any, P interface {
	*T
	client.Object
}](items []T) (objects []client.Object) {
	for i := range items {
		objects = append(objects, P(&items[i]))
	}
	return objects
}
