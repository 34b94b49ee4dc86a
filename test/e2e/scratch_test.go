package e2e

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"goless.io/operator/api/v1beta1"
)

// With scratch, a function stores an upload of 100 MB in /tmp, on disk and in memory, with both
// build strategies. Without it, no path is writable.
func TestScratch(t *testing.T) {
	t.Parallel()
	for name, scratch := range map[string]*v1beta1.Scratch{
		"none":   nil,
		"disk":   {Size: resource.MustParse("256Mi")},
		"memory": {Size: resource.MustParse("256Mi"), Medium: v1beta1.ScratchInMemory},
	} {
		for _, strategy := range []v1beta1.BuildStrategy{v1beta1.BuildShared, v1beta1.BuildInPod} {
			t.Run(name+string(strategy), func(t *testing.T) {
				t.Parallel()
				ns := newNamespace(t)
				fn := ns.ready(ns.apply(function("uploading", production, func(spec *v1beta1.FunctionSpec) {
					spec.Build, spec.Scratch = &v1beta1.BuildSpec{Strategy: strategy}, scratch
					spec.Resources = &v1beta1.Resources{Limits: v1beta1.Amounts{Memory: new(resource.MustParse("512Mi"))}}
				})))
				ns.reach(fn)
				uploads := sent100MB
				if scratch == nil {
					uploads = call{method: uploads.method, path: uploads.path, status: 500, part: "read-only file system"}
				}
				ns.makes(fn, uploads)
			})
		}
	}
}
