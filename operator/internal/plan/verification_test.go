package plan_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/buildclient"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/plan"
	"goless.io/operator/internal/settings"
	"goless.io/operator/internal/verification"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// verified returns a scene in which a Function with spec.rollout.verify has served a first version,
// and the rollout of a second one is being verified.
func verified(t *testing.T) *scene {
	return verifiedWith(t, inPod, nil)
}

func verify(fn *v1beta1.Function) { fn.Spec.Rollout = &v1beta1.Rollout{Verify: &v1beta1.Verify{}} }

// verifiedWith is like verified, with other settings, and a binary of the first version.
func verifiedWith(t *testing.T, settings settings.Settings, with *desired.Binary) *scene {
	s := begin(t, settings, first).with(verify).serving(with, 1)
	s.record(1).set()
	s.seen.PreviousTemplate = s.seen.OwnedFields.Spec.Template
	s.seen.Time, s.seen.Deployment.ResourceVersion = now, "7"
	s.change(second)
	if with != nil {
		s.answer(buildclient.Answer{Binary: &desired.Binary{Service: with.Service, Key: "second", Capability: "c", PublicKey: with.PublicKey}})
	}
	return s.apply()
}

// While a version is verified, a change of the spec restores the previous version until the change is
// built, and at once if the spec is the previous one. An invalid spec changes nothing, but a version
// that is worse is rolled back.
func TestVerifiedVersionIsSuperseded(t *testing.T) {
	upgraded := verifiedWith(t, shared, binary).with(func(fn *v1beta1.Function) { fn.Annotations = map[string]string{desired.UpgradeAnnotation: "now"} })
	if state := desired.VerificationIn(upgraded.plan().Deployment); state.Previous == nil {
		t.Error("a change that does not change the template ends the verification")
	}
	for name, test := range map[string]struct {
		change   func(*scene)
		restored bool
		rejected bool
	}{
		"Unbuilt":  {func(s *scene) { s.change(second + "// third\n") }, true, false},
		"Returned": {func(s *scene) { s.change(first) }, true, false},
		"Invalid":  {func(s *scene) { s.with(func(fn *v1beta1.Function) { fn.Spec.Unreadable = "no" }) }, false, false},
		"InvalidAndWorse": {func(s *scene) {
			s.newPod(time.Minute, corev1.ContainerStatus{}).reported(100, 50).with(func(fn *v1beta1.Function) { fn.Spec.Unreadable = "no" })
		}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := verifiedWith(t, shared, binary)
			test.change(s)
			p := s.plan()
			if planned := p.Deployment != nil; planned != test.restored {
				t.Fatalf("the Deployment is planned: %t", planned)
			} else if !planned {
				return
			}
			state := desired.VerificationIn(p.Deployment)
			if got, want := desired.TemplateIn(p.Deployment), desired.TemplateOf(&s.seen.Records[len(s.seen.Records)-1]); got != want {
				t.Errorf("the template is %s, want %s", got, want)
			}
			if *p.Deployment.ResourceVersion != "7" || state.Previous != nil || (state.Rejected != nil) != test.rejected || p.Deployment.Spec.MinReadySeconds != nil {
				t.Errorf("the state is %+v", state)
			}
		})
	}
}

// set adds the ReplicaSet of the Deployment's template and a pod that is ready. The status of the
// ReplicaSet does not contain that yet.
func (s *scene) set() {
	set := appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Labels: s.seen.Deployment.Spec.Template.Labels}}
	set.Status.Replicas = 1
	s.seen.ReplicaSets = append(s.seen.ReplicaSets, set)
	s.pod(corev1.ContainerStatus{})
	s.seen.Pods[len(s.seen.Pods)-1].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
}

// apply makes the planned Deployment that of the scene.
func (s *scene) apply() *scene {
	s.Helper()
	planned := s.plan().Deployment
	if v := planned.ResourceVersion; v == nil || *v != s.seen.Deployment.ResourceVersion {
		s.Errorf("the Deployment is written whatever it is by then: %v", v)
	}
	s.deployed(nil, 1)
	s.seen.OwnedFields, s.seen.Deployment.ResourceVersion = planned, "7"
	planned.ResourceVersion = nil
	s.seen.Deployment.Labels = planned.Labels
	s.seen.Deployment.Spec.Template.Labels = planned.Spec.Template.Labels
	return s
}

// newPod adds a pod of the Deployment that has been ready for some time; not ready if that is 0.
func (s *scene) newPod(ready time.Duration, c corev1.ContainerStatus) *scene {
	s.pod(c)
	pod := &s.seen.Pods[len(s.seen.Pods)-1]
	pod.UID, pod.Name = "new", "f-new"
	if ready > 0 {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-ready))}}
	}
	return s
}

// reported adds a report about the pod of newPod.
func (s *scene) reported(requests, failed int64) *scene {
	s.seen.Activator.Verified = &verification.Report{
		Template: desired.TemplateIn(s.seen.OwnedFields), Pod: "new",
		New: verification.Counts{Requests: requests, Failed: failed}, Previous: verification.Counts{Requests: 100},
	}
	return s
}

// During a verification, the rollout stops at one new pod. Afterwards, the Deployment is as without
// it.
func TestVerificationStopsRollout(t *testing.T) {
	s := verified(t)
	spec := s.seen.OwnedFields.Spec
	if *spec.MinReadySeconds != 240 || *spec.ProgressDeadlineSeconds != 840 || spec.Strategy.RollingUpdate.MaxSurge.String() != "1" {
		t.Errorf("the Deployment does not wait: %+v", spec)
	}
	p := s.newPod(time.Minute, corev1.ContainerStatus{}).plan()
	limits := verification.ParseLimits(p.Service.Annotations[v1beta1.VerifyLimitsAnnotation])
	if limits == nil || limits.Template != desired.TemplateIn(s.seen.OwnedFields) {
		t.Errorf("the Service has the annotations %v", p.Service.Annotations)
	}
	if p.VerificationDelay != 150*time.Second || !p.Verification.Until.Equal(now.Add(time.Minute)) || p.Verification.Result != "" {
		t.Errorf("after a minute: decides after %s, %+v", p.VerificationDelay, p.Verification)
	}
	p = s.reported(20, 0).plan()
	if p.Deployment.Spec.MinReadySeconds != nil || *p.Deployment.Spec.ProgressDeadlineSeconds != 840 || len(p.Deployment.Annotations) > 0 || len(p.Service.Annotations) > 0 {
		t.Errorf("after the verification: %+v", p.Deployment)
	}
}

// Each case is a rollout that is being verified, and the result.
func TestVerification(t *testing.T) {
	exited := corev1.ContainerStatus{RestartCount: 1, LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 2, Message: "panic: no"}}}
	startError := corev1.ContainerStatus{RestartCount: 1, LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 128, Reason: "StartError"}}}
	lost := corev1.ContainerStatus{RestartCount: 1, LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 255, Reason: "Unknown"}}}
	for name, test := range map[string]struct {
		scene   *scene
		result  plan.VerificationResult
		message string
	}{
		"NoPod":        {scene: verified(t)},
		"NotReady":     {scene: verified(t).newPod(0, corev1.ContainerStatus{})},
		"Ready":        {scene: verified(t).newPod(time.Minute, corev1.ContainerStatus{})},
		"LostWithNode": {scene: verified(t).newPod(time.Minute, lost)},
		"NotStarted":   {scene: verified(t).newPod(0, startError)},
		"Over":         {scene: verified(t).newPod(2*time.Minute, corev1.ContainerStatus{})},
		"Passed":       {verified(t).newPod(time.Minute, corev1.ContainerStatus{}).reported(100, 1), plan.VerificationPassed, "the new version failed 1 of 100 requests (1%), and the previous one 0 of 100 requests (0%)"},
		"FewRequests":  {verified(t).newPod(time.Minute, corev1.ContainerStatus{}).reported(3, 0), plan.VerificationInconclusive, "received 3 requests, fewer than spec.rollout.verify.minRequests (20)"},
		"NoReport":     {verified(t).newPod(211*time.Second, corev1.ContainerStatus{}), plan.VerificationInconclusive, "sent no report"},
		"Unknown":      {unread(verified(t).newPod(time.Minute, corev1.ContainerStatus{}).reported(0, 0)), plan.VerificationInconclusive, "are unknown: no response"},
		"UnknownOfOld": {unread(verified(t).newPod(time.Minute, corev1.ContainerStatus{}).reported(100, 50)), plan.VerificationInconclusive, "are unknown: no response"},
		"Continued":    {continued(verified(t).newPod(time.Hour, exited)), plan.VerificationInconclusive, "did not decide in time"},
		"Starts":       {scene: starts(continued(verified(t).newPod(time.Minute, corev1.ContainerStatus{})))},
		"Worse":        {verified(t).newPod(time.Minute, corev1.ContainerStatus{}).reported(100, 50), plan.VerificationRolledBack, "the new version failed 50 of 100 requests (50%)"},
		"Exited":       {verified(t).newPod(time.Minute, exited), plan.VerificationRolledBack, "replica f-new exited with code 2: panic: no"},
		"NeverReady":   {verified(t).newPod(0, exited), plan.VerificationRolledBack, "replica f-new exited"},
		"Terminating":  {scene: terminating(verified(t).newPod(time.Minute, exited))},
		"OtherPod":     {scene: otherPod(verified(t).newPod(time.Minute, corev1.ContainerStatus{}).reported(100, 50))},
		"NoRecord":     {noRecord(verified(t).newPod(time.Minute, exited)), plan.VerificationInconclusive, "of the previous version is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			s := test.scene
			p := s.plan()
			if p.Verification == nil || p.Verification.Result != test.result || !strings.Contains(p.Verification.Message, test.message) || p.Verification.Decided != (test.result != "") {
				t.Fatalf("the verification is %+v, want %q", p.Verification, test.result)
			}
			revision, state := desired.LatestRevision(s.fn), desired.VerificationIn(p.Deployment)
			if test.result == plan.VerificationRolledBack {
				s.fn.Spec.Function = first
				revision = desired.LatestRevision(s.fn)
			}
			if got := desired.RevisionIn(p.Deployment); got != revision {
				t.Errorf("the Deployment has revision %s, want %s", got, revision)
			}
			if (state.Previous != nil) != (test.result == "") || (state.Rejected != nil) != (test.result == plan.VerificationRolledBack) {
				t.Errorf("the state is %+v", state)
			}
		})
	}
}

func unread(s *scene) *scene {
	s.seen.Activator.Verified.Problem = "no response"
	return s
}

// continued completes the rollout of the Deployment.
func continued(s *scene) *scene {
	s.seen.Deployment.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Reason: "NewReplicaSetAvailable"}}
	return s
}

// starts makes the pods of the Deployment unavailable: it had no replicas before.
func starts(s *scene) *scene {
	s.seen.Deployment.Status.AvailableReplicas = 0
	return s
}

func terminating(s *scene) *scene {
	s.seen.Pods[len(s.seen.Pods)-1].DeletionTimestamp = &metav1.Time{Time: now}
	return s
}

func otherPod(s *scene) *scene {
	s.seen.Activator.Verified.Pod = "of an earlier rollout"
	return s
}

func noRecord(s *scene) *scene {
	s.seen.PreviousTemplate = nil
	return s
}

// While the values that the environment refers to are unknown, the result of the verification applies.
func TestRolledBackWithoutValues(t *testing.T) {
	s := begin(t, inPod, first).with(verify)
	s.seen.Values.Hash = "of the first version"
	s.serving(nil, 1).record(1).set()
	s.seen.PreviousTemplate, s.seen.Time, s.seen.Deployment.ResourceVersion = s.seen.OwnedFields.Spec.Template, now, "7"
	s.change(second).seen.Values.Hash = "of the second version"
	withoutValues := desired.Deployment(s.fn, s.settings, "", nil).Labels[desired.SpecHashLabel]
	s.apply().newPod(time.Minute, corev1.ContainerStatus{}).reported(100, 50)
	s.recordOf(2, withoutValues, desired.TemplateIn(s.seen.OwnedFields), desired.LatestRevision(s.fn))
	s.seen.Records[0].Name = desired.RecordNameOf(s.seen.Deployment)
	s.apply()
	s.seen.ValuesErr = errors.New("no")
	if p := s.plan(); p.Verification == nil || p.Verification.RejectedRecord == "" {
		t.Errorf("the verification is %+v", p.Verification)
	}
	if p := s.change(second + "// third\n").plan(); p.Verification != nil && p.Verification.RejectedRecord != "" {
		t.Errorf("another spec is rolled back: %+v", p.Verification)
	}
}

// The record and the source of the previous version are kept, also if the function is stopped and has
// no history.
func TestPreviousVersionIsKept(t *testing.T) {
	s := verified(t).with(func(fn *v1beta1.Function) { fn.Spec.RevisionHistoryLimit = new(int32(0)) })
	s.record(2)
	s.recordOf(0, "older", "older", "older")
	s.seen.ReplicaSets, s.seen.RevisionsInUse = nil, map[string]bool{}
	if got := deleted(s.plan()); !slices.Equal(got, []string{"f-record0"}) {
		t.Errorf("deleted %v", got)
	}
}

// After a rollback, the previous version is kept until the spec or its verification changes.
func TestRolledBack(t *testing.T) {
	for name, test := range map[string]struct {
		change   func(*v1beta1.Function)
		stays    bool // rolled back
		verifies bool // another rollout
	}{
		"Unchanged":      {func(*v1beta1.Function) {}, true, false},
		"Scaled":         {func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(3)) }, true, false},
		"History":        {func(fn *v1beta1.Function) { fn.Spec.RevisionHistoryLimit = new(int32(0)) }, true, false},
		"NewSource":      {func(fn *v1beta1.Function) { fn.Spec.Function = second + "// third\n" }, false, true},
		"NewEnv":         {func(fn *v1beta1.Function) { fn.Spec.Env = []v1beta1.EnvVar{{Name: "A", Value: "1"}} }, false, true},
		"PreviousSource": {func(fn *v1beta1.Function) { fn.Spec.Function = first }, false, false},
		"MoreErrors":     {func(fn *v1beta1.Function) { fn.Spec.Rollout.Verify.MaxErrors = "60%" }, false, true},
		"NotVerified":    {func(fn *v1beta1.Function) { fn.Spec.Rollout = nil }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := verified(t).newPod(time.Minute, corev1.ContainerStatus{}).reported(100, 50)
			rolledBack := s.plan()
			s.seen.OwnedFields = rolledBack.Deployment
			s.seen.Deployment.Labels, s.seen.Deployment.Spec.Template.Labels = rolledBack.Deployment.Labels, rolledBack.Deployment.Spec.Template.Labels
			p := s.with(test.change).plan()
			v, state := p.Verification, desired.VerificationIn(p.Deployment)
			if stays := v != nil && v.RejectedRecord == rolledBack.Verification.RejectedRecord && !v.Decided && state.Rejected != nil; stays != test.stays {
				t.Errorf("it stays rolled back: %t; %+v, %+v", stays, v, state)
			}
			if (state.Previous != nil) != test.verifies || test.verifies && state.Previous.Record != rolledBack.RecordName {
				t.Errorf("it verifies another rollout: %+v", state)
			}
			if test.stays && (desired.TemplateIn(p.Deployment) != desired.TemplateIn(rolledBack.Deployment) || p.IsLatest) {
				t.Error("the template has changed")
			}
		})
	}
}

// After a rollback, pods that can no longer fetch their image or their binary get another one. That is a
// version of its own, with the spec of the previous one, to which the next version is compared.
func TestRepairAfterRollback(t *testing.T) {
	pulling := corev1.ContainerStatus{Image: "launcher:1", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}}
	again := &desired.Binary{Service: binary.Service, Key: "again", Capability: "c", PublicKey: "another"}
	t.Run("Image", func(t *testing.T) { testRepair(t, pulling, withImages("builder:2", "launcher:2"), binary) })
	t.Run("Binary", func(t *testing.T) {
		testRepair(t, corev1.ContainerStatus{}, withImages("builder:1", "launcher:1"), again)
	})
}

// testRepair rolls a version back, and then expects other images and another binary in the pod template,
// given the state of a container and an answer of the build service.
func testRepair(t *testing.T, container corev1.ContainerStatus, now settings.Settings, answer *desired.Binary) {
	s := verifiedWith(t, withImages("builder:1", "launcher:1"), binary)
	s.with(func(fn *v1beta1.Function) { fn.Spec.Env = []v1beta1.EnvVar{{Name: "A", Value: "worse"}} }).apply()
	s.newPod(time.Minute, corev1.ContainerStatus{}).reported(100, 50).apply()
	recorded := s.plan().RecordName
	s.answerOf(first, buildclient.Answer{Binary: answer}).newPod(0, container)
	s.seen.Deployment.Status.AvailableReplicas, s.seen.Deployment.Status.ReadyReplicas = 0, 0
	p := s.under(now).plan()
	repaired := p.Deployment
	if c := repaired.Spec.Template.Spec.Containers[0]; *c.Image != now.Images.Function || desired.BinaryIn(repaired).Key != answer.Key {
		t.Errorf("the container is %+v", c)
	}
	if v := p.Verification; v == nil || v.RejectedRecord == "" || v.Decided || p.Record == nil || p.RecordOfSpec != recorded {
		t.Fatalf("the verification is %+v, and the record %+v has the spec of %q, want %s", v, p.Record, p.RecordOfSpec, recorded)
	}
	s.applyRepaired(p)
	if p := s.plan(); desired.TemplateIn(p.Deployment) != desired.TemplateIn(repaired) || p.Record != nil || p.RecordName != s.seen.Records[0].Name {
		t.Errorf("the next plan has another template or the record %s", p.RecordName)
	}
	p = s.change(second + "// third\n").answer(buildclient.Answer{Binary: binary}).plan()
	if previous := desired.VerificationIn(p.Deployment).Previous; previous == nil || *previous != desired.VersionIn(repaired) {
		t.Errorf("the next version is compared with %+v, want %+v", previous, desired.VersionIn(repaired))
	}
}

// applyRepaired makes the Deployment and the record of a plan those of the scene, with a pod that is ready.
func (s *scene) applyRepaired(p *plan.Plan) {
	d := p.Deployment
	s.recordOf(*p.Record.Revision, p.Record.Labels["goless.io/recorded-spec"], desired.TemplateIn(d), desired.RevisionIn(d))
	s.seen.Records[0].Name = *p.Record.Name
	s.seen.OwnedFields, s.seen.Deployment.Labels, s.seen.Deployment.Spec.Template.Labels = d, d.Labels, d.Spec.Template.Labels
	s.set()
}

// A version that replaces one that is being verified is compared with the same previous version, which
// the Function may also return to. Some changes are not verified.
func TestVerifiedChanges(t *testing.T) {
	s := verified(t)
	previous := desired.VerificationIn(s.seen.OwnedFields).Previous
	if state := desired.VerificationIn(s.change(second + "// third\n").plan().Deployment); state.Previous == nil || *state.Previous != *previous {
		t.Errorf("a third version is compared with %+v, want %+v", state.Previous, previous)
	}
	if state := desired.VerificationIn(s.change(first).plan().Deployment); state.Previous != nil {
		t.Errorf("the previous version is verified: %+v", state)
	}
	same := verified(t).newPod(time.Minute, corev1.ContainerStatus{}).reported(20, 0).apply()
	if state := desired.VerificationIn(same.with(func(fn *v1beta1.Function) { fn.Spec.ClassName = "other" }).plan().Deployment); state.Previous != nil {
		t.Errorf("a change that does not change the template is verified: %+v", state)
	}
	same.record(2).seen.ReplicaSets, same.seen.Pods = nil, nil // it sleeps
	same.fn.Status.Conditions = append(same.fn.Status.Conditions, metav1.Condition{Type: v1beta1.ConditionAvailable, Status: metav1.ConditionTrue})
	same.fn.Status.ReadyRevision = desired.LatestRevision(same.fn)
	if state := desired.VerificationIn(same.plan().Deployment); state.Previous != nil {
		t.Errorf("a change that does not change the template of a sleeping function is verified: %+v", state)
	}
	running := verified(t).newPod(time.Minute, corev1.ContainerStatus{}).reported(20, 0).apply()
	running.record(2).set()
	if state := desired.VerificationIn(running.change(first).plan().Deployment); state.Previous != nil {
		t.Errorf("a version whose pods still run is verified: %+v", state)
	}
	unrecorded := begin(t, inPod, first).with(verify).serving(nil, 1)
	unrecorded.set()
	if state := desired.VerificationIn(unrecorded.change(second).plan().Deployment); state.Previous != nil {
		t.Errorf("it is compared with a version that cannot be restored: %+v", state)
	}
	unserved := verified(t)
	unserved.seen.Pods, unserved.seen.OwnedFields.Annotations = nil, nil
	if state := desired.VerificationIn(unserved.change(first).plan().Deployment); state.Previous != nil {
		t.Errorf("it is compared with a version that has not served: %+v", state)
	}
	upgraded := verified(t).newPod(time.Minute, corev1.ContainerStatus{}).reported(20, 0).apply()
	other := inPod
	other.Images.Builder = "builder:2"
	upgraded.record(2).set()
	upgraded.seen.Pods[1].Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: desired.BuildContainer, Image: "builder:1", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}}
	p := upgraded.under(other).plan()
	if state := desired.VerificationIn(p.Deployment); desired.TemplateIn(p.Deployment) == desired.TemplateIn(upgraded.seen.OwnedFields) || state.Previous != nil {
		t.Errorf("another image for the same spec is verified: %+v", state)
	}
}
