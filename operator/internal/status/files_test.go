package status_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/plan"
	"goless.io/operator/internal/status"
)

// A pod that cannot mount its volumes reports the objects that it waits for, with both build
// strategies.
func TestMissingFiles(t *testing.T) {
	const want = `a replica waits for files from ConfigMap "config", Secret "tls"; see kubectl describe pod`
	preparing := func(p corev1.Pod, now corev1.ConditionStatus) corev1.Pod {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: now}}
		return p
	}
	all := []v1beta1.File{
		{Name: "a", ConfigMap: &v1beta1.FileSource{Name: "config"}},
		{Name: "b", Secret: &v1beta1.FileSource{Name: "tls", Optional: new(false)}},
		{Name: "c", ConfigMap: &v1beta1.FileSource{Name: "may be there", Optional: new(true)}},
	}
	shared := reports(`{"reason":"Built"}`)
	for name, test := range map[string]struct {
		files   []v1beta1.File
		service *plan.BuildState
		pod     corev1.Pod
		told    bool
	}{
		"InPod":       {all, nil, preparing(pod(latest, corev1.ContainerState{}), corev1.ConditionFalse), true},
		"Shared":      {all, &shared, preparing(sharedPod(latest), corev1.ConditionFalse), true},
		"Begun":       {all, &shared, preparing(sharedPod(latest), corev1.ConditionTrue), false},
		"Unscheduled": {all, &shared, homeless(sharedPod(latest)), false},
		"Optional":    {all[2:], &shared, preparing(sharedPod(latest), corev1.ConditionFalse), false},
		"None":        {nil, &shared, preparing(sharedPod(latest), corev1.ConditionFalse), false},
	} {
		t.Run(name, func(t *testing.T) {
			fn := function(1)
			fn.Spec.Files = test.files
			s := seen(deployment(1, 0, latest), nil, test.pod)
			s.Plan.Build = test.service
			got := meta.FindStatusCondition(status.Of(fn, s).Conditions, v1beta1.ConditionReady).Message
			if strings.Contains(got, want) != test.told || !test.told && strings.Contains(got, "files") {
				t.Errorf("message %q, want %q in it: %t", got, want, test.told)
			}
		})
	}
}
