package desired

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/settings"
)

// SpecHashWithoutValues returns the hash of everything in a Function that affects its pods, except
// the values in ConfigMaps and Secrets. RecordedSpec returns the same hash for a
// ControllerRevision.
func SpecHashWithoutValues(fn *v1beta1.Function, s settings.Settings) string {
	return specHash(fn, podMetadataFrom(fn, s))
}

// RenderedFor reports whether a Deployment was rendered for the spec of a Function, whatever the
// values in ConfigMaps and Secrets were.
func RenderedFor(fn *v1beta1.Function, s settings.Settings, d *appsv1ac.DeploymentApplyConfiguration) bool {
	return specHash(fn, podMetadataFrom(fn, s).withValues(d)) == d.Labels[SpecHashLabel]
}

// specHash returns the value of SpecHashLabel: the hash of everything in a Function that affects
// its pods. It excludes what the operator adds, and fields with their default value, so that a new
// field of the API does not change the hash of Functions that do not use it. When you add a field,
// add its default here if that is not the zero value, or the field itself if it does not affect the
// pods: a changed hash of all Functions restarts all of them.
func specHash(fn *v1beta1.Function, p podMetadata) string {
	spec := fn.Spec.DeepCopy()
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
	content := VersionedFields(specContent(spec))
	dropEmpty(content)
	return "v1-" + Digest(map[string]any{
		"spec": content, "source": Summary(fn).SHA256, "upgrade": fn.Annotations[UpgradeAnnotation],
		"labels": p.labels, "annotations": p.annotations,
	})
}

// specContent returns the JSON of a spec.
func specContent(spec *v1beta1.FunctionSpec) map[string]any {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(spec)
	if err != nil {
		panic(fmt.Errorf("encoding a spec: %w", err)) // types of our own
	}
	return content
}

// dropEmpty removes the fields of an object whose value means the same as their absence. It keeps
// numbers, because 0 may be a value of its own.
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
