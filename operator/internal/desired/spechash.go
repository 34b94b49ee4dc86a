package desired

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"goless.io/operator/api/v1beta1"
)

// specHash is the value of SpecHashLabel: the hash of everything in a Function that changes its
// pods. What the operator adds by itself is not in it, and neither are fields that have their
// default, whether written in the Function or not. So a new field of the API changes no hash until
// somebody uses it. Add its default here if that is not its zero value, or the field itself if it
// does not change the pods: a hash that changes for all Functions restarts all of them.
func specHash(fn *v1beta1.Function, p podMetadata) string {
	spec := fn.Spec.DeepCopy()
	spec.Function = "" // its SHA-256 is in the hash
	spec.Service, spec.AppProtocol = "", ""
	spec.Replicas, spec.Scaling, spec.RevisionHistoryLimit, spec.ProgressDeadlineSeconds = nil, nil, nil, nil
	if fn.Port() == v1beta1.DefaultServerPort {
		spec.ServerPort = 0
	}
	if fn.RequestTimeout() == v1beta1.DefaultTimeout {
		spec.Timeout = nil
	}
	if spec.Scratch != nil && spec.Scratch.Medium == v1beta1.ScratchOnDisk {
		spec.Scratch.Medium = ""
	}
	if token := spec.ServiceAccountToken; token != nil && token.ExpirationSeconds == v1beta1.DefaultTokenExpirationSeconds {
		token.ExpirationSeconds = 0
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(spec)
	if err != nil {
		panic(fmt.Errorf("a spec has no JSON: %w", err)) // types of our own
	}
	dropEmpty(content)
	return "v1-" + Digest(map[string]any{
		"spec": content, "source": Summary(fn).SHA256, "upgrade": fn.Annotations[UpgradeAnnotation],
		"labels": p.labels, "annotations": p.annotations,
	})
}

// dropEmpty drops the fields of an object that say no more than their absence. A number does: 0 may
// be a value of its own.
func dropEmpty(object map[string]any) {
	for name, value := range object {
		empty := value == nil || value == "" || value == false
		switch v := value.(type) {
		case map[string]any:
			dropEmpty(v)
			empty = len(v) == 0
		case []any:
			empty = len(v) == 0
			for _, item := range v {
				if item, ok := item.(map[string]any); ok {
					dropEmpty(item)
				}
			}
		}
		if empty {
			delete(object, name)
		}
	}
}
