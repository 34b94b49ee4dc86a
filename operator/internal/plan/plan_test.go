package plan_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/buildclient"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/observe"
	"goless.io/operator/internal/plan"
	"goless.io/operator/internal/settings"
	"goless.io/operator/internal/validation"
)

const (
	first   = "package p\n\nimport \"net/http\"\n\nfunc Handler(w http.ResponseWriter, r *http.Request) {}\n"
	second  = first + "// second\n"
	refused = "package p\n"
)

var (
	inPod  = settings.Settings{Images: settings.Images{Builder: "builder:1", Function: "launcher:1"}, NetworkPolicy: true, Build: settings.Build{Strategy: v1beta1.BuildInPod}}
	shared = settings.Settings{Images: inPod.Images, NetworkPolicy: true}
	binary = &desired.Binary{Service: "https://build", Key: "key", Capability: "capability", PublicKey: "public"}
)

// scene is the initial state of a test case: a Function and a Snapshot of its objects.
type scene struct {
	*testing.T

	fn       *v1beta1.Function
	settings settings.Settings
	seen     *observe.Snapshot
}

// begin returns a scene with a Function that has a source, and no other objects.
func begin(t *testing.T, s settings.Settings, source string) *scene {
	fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "f", UID: "uid", Generation: 1}}
	fn.Spec.Function, fn.Spec.Replicas = source, new(int32(1))
	return &scene{T: t, fn: fn, settings: s, seen: &observe.Snapshot{
		Verdict: validation.Function(fn, s), Source: &corev1.ConfigMap{}, Deployment: &appsv1.Deployment{}, Service: &corev1.Service{},
		Budget: &policyv1.PodDisruptionBudget{}, NetworkPolicy: &networkingv1.NetworkPolicy{}, TestPolicy: &networkingv1.NetworkPolicy{}, Autoscaler: &autoscalingv2.HorizontalPodAutoscaler{},
		RevisionsInUse: map[string]bool{}, Answers: map[string]buildclient.Answer{},
	}}
}

// change replaces the source of the Function.
func (s *scene) change(source string) *scene {
	return s.with(func(fn *v1beta1.Function) { fn.Spec.Function = source })
}

// deployed adds a Deployment of the Function's source, with a binary, or compiled in the pod if
// with is nil. ready is the number of its ready replicas.
func (s *scene) deployed(with *desired.Binary, ready int32) *scene {
	s.Helper()
	s.seen.OwnedFields = desired.Deployment(s.fn, s.settings, s.seen.Values.Hash, with)
	s.seen.Deployment = &appsv1.Deployment{}
	text, err := json.Marshal(s.seen.OwnedFields)
	if err == nil {
		err = json.Unmarshal(text, s.seen.Deployment)
	}
	if err != nil {
		s.Fatal(err)
	}
	s.own(s.seen.Deployment, "f")
	replicas := *s.fn.Spec.Replicas
	s.seen.Deployment.Status = appsv1.DeploymentStatus{Replicas: replicas, UpdatedReplicas: replicas, ReadyReplicas: ready, AvailableReplicas: ready}
	return s
}

// awaiting adds a Deployment whose pods wait for the build of the Function's source.
func (s *scene) awaiting(expected *desired.Binary) *scene {
	s.Helper()
	s.deployed(expected, 0)
	s.seen.Deployment.Labels["goless.io/awaits-build"] = "true"
	desired.MarkAwaitsBuild(s.seen.OwnedFields)
	return s
}

// serving adds a Deployment like deployed, and reports its revision as ready in the status.
func (s *scene) serving(with *desired.Binary, ready int32) *scene {
	s.Helper()
	s.deployed(with, ready)
	revision := desired.LatestRevision(s.fn)
	s.fn.Status.LatestRevision, s.fn.Status.ReadyRevision = revision, revision
	s.fn.Status.Build = &v1beta1.BuildStatus{Revision: revision}
	s.fn.Status.Conditions = []metav1.Condition{{Type: v1beta1.ConditionBuilt, Status: metav1.ConditionTrue, Reason: v1beta1.ReasonBuilt}}
	source := corev1.ConfigMap{Data: map[string]string{"handler.go": s.fn.Spec.Function}}
	s.own(&source, desired.ConfigMapName(s.fn, revision))
	source.Labels = map[string]string{desired.RevisionLabel: revision}
	observe.Summarize(&source)
	s.seen.Sources = append(s.seen.Sources, source)
	s.seen.RevisionsInUse[revision] = true
	return s
}

// with changes the spec or the status of the Function.
func (s *scene) with(change func(*v1beta1.Function)) *scene {
	change(s.fn)
	s.fn.Generation++
	s.seen.Verdict = validation.Function(s.fn, s.settings)
	return s
}

// under changes the configuration of the operator.
func (s *scene) under(settings settings.Settings) *scene {
	s.settings = settings
	s.seen.Verdict = validation.Function(s.fn, settings)
	return s
}

// own makes the Function the owner of an object.
func (s *scene) own(obj metav1.Object, name string) {
	obj.SetName(name)
	obj.SetUID("object")
	obj.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "goless.io/v1beta1", Kind: "Function", Name: "f", UID: "uid", Controller: new(true)}})
}

// answer sets the answer of the build service for the Function's source.
func (s *scene) answer(a buildclient.Answer) *scene { return s.answerOf(s.fn.Spec.Function, a) }

// answerOf sets the answer of the build service for another source.
func (s *scene) answerOf(source string, a buildclient.Answer) *scene {
	s.seen.Answers[desired.SummaryOf(source).SHA256] = a
	return s
}

// pod adds a pod of the Deployment.
func (s *scene) pod(container corev1.ContainerStatus) *scene {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: s.seen.Deployment.Spec.Template.Labels}}
	container.Name = desired.FunctionContainer
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{container}
	s.seen.Pods = append(s.seen.Pods, pod)
	return s
}

func (s *scene) plan() *plan.Plan {
	s.Helper()
	s.seen.Settings = s.settings
	before, err := json.Marshal(s.seen.OwnedFields)
	if err != nil {
		s.Fatal(err)
	}
	p := plan.Of(s.fn, s.seen)
	if after, err := json.Marshal(s.seen.OwnedFields); err != nil || string(after) != string(before) {
		s.Errorf("plan.Of has changed the owned fields: %s, %s, %v", before, after, err)
	}
	return p
}

// ordered returns the revisions that a plan orders.
func ordered(p *plan.Plan) (revisions []string) {
	for _, fn := range p.Orders {
		revisions = append(revisions, desired.LatestRevision(fn))
	}
	return revisions
}

func deleted(p *plan.Plan) (names []string) {
	for _, obj := range p.Delete {
		names = append(names, obj.GetName())
	}
	return names
}

// The PodDisruptionBudget is deleted when the function has only one replica left, also if a lower
// maximum of the cluster is the reason.
func TestBudgetOfOneReplica(t *testing.T) {
	one := inPod
	one.Function.MaxReplicas = 1
	three := func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(3)) }
	for name, s := range map[string]*scene{
		"Scaled":  begin(t, inPod, first).serving(nil, 1),
		"Lowered": begin(t, inPod, first).with(three).serving(nil, 3).under(one),
	} {
		s.own(s.seen.Budget, "budget")
		if p := s.plan(); p.Budget != nil || !slices.Equal(deleted(p), []string{"budget"}) {
			t.Errorf("%s: budget %v, deletes %v", name, p.Budget, deleted(p))
		}
	}
}

// Each case lists the revision, the binary and the replicas of the planned Deployment, and the
// revisions to order.
func TestDeployment(t *testing.T) {
	report := []byte(`{"reason":"Built"}`)
	broken := []byte(`{"reason":"CompileFailed"}`)
	other := &desired.Binary{Service: "https://build", Key: "other", Capability: "capability", PublicKey: "public"}
	rebuilt := buildclient.Answer{Binary: other, Report: report}
	scale := func(n int32) func(*v1beta1.Function) {
		return func(fn *v1beta1.Function) { fn.Spec.Replicas = &n }
	}
	steady := func() *scene { // two of three replicas are ready, and the service has built another binary
		return begin(t, shared, first).with(scale(3)).serving(binary, 2).answer(rebuilt)
	}
	for name, test := range map[string]struct {
		scene    *scene
		revision string // source; empty for no Deployment
		binary   *desired.Binary
		replicas int32
		ordered  []string
	}{
		"InPod":            {begin(t, inPod, first), first, nil, 1, nil},
		"Shared":           {begin(t, shared, first), "", nil, 0, []string{first}},
		"SharedBuilt":      {begin(t, shared, first).answer(buildclient.Answer{Binary: binary, Report: report}), first, binary, 1, []string{first}},
		"SharedBroken":     {begin(t, shared, first).answer(buildclient.Answer{Report: broken}), "", nil, 0, []string{first}},
		"Serving":          {begin(t, shared, first).serving(binary, 1), first, binary, 1, nil},
		"Changed":          {begin(t, shared, first).serving(binary, 1).change(second), first, binary, 1, []string{second}},
		"ChangedBuilt":     {begin(t, shared, first).serving(binary, 1).change(second).answer(buildclient.Answer{Binary: other, Report: report}), second, other, 1, []string{second}},
		"ChangedBroken":    {begin(t, shared, first).serving(binary, 1).change(second).answer(buildclient.Answer{Report: broken}), first, binary, 1, []string{second}},
		"ChangedUnready":   {begin(t, shared, first).serving(binary, 0).change(second), first, binary, 1, []string{second, first}},
		"Lost":             {begin(t, shared, first).serving(binary, 0), first, binary, 1, []string{first}},
		"LostAndOther":     {begin(t, shared, first).serving(binary, 0).answer(buildclient.Answer{Binary: other, Report: report}), first, other, 1, []string{first}},
		"LostAndInPod":     {begin(t, shared, first).serving(binary, 0).under(inPod).answer(buildclient.Answer{Binary: other, Report: report}), first, nil, 1, []string{first}},
		"ChangedInPod":     {begin(t, inPod, first).serving(nil, 1).change(second), second, nil, 1, nil},
		"Refused":          {begin(t, inPod, first).serving(nil, 1).change(refused), first, nil, 1, nil},
		"RefusedAtFirst":   {begin(t, inPod, refused), "", nil, 0, nil},
		"RefusedAndScaled": {begin(t, inPod, first).serving(nil, 1).change(refused).with(scale(3)), first, nil, 3, nil},
		"BrokenAndScaled":  {begin(t, shared, first).serving(binary, 1).change(second).answer(buildclient.Answer{Report: broken}).with(scale(3)), first, binary, 3, []string{second}},
		"ServiceIsLost":    {begin(t, shared, first).serving(binary, 1).change(second).answer(buildclient.Answer{Trouble: "refused"}), first, binary, 1, []string{second}},
		"Mended":           {begin(t, shared, first).serving(binary, 1).change(second).answer(buildclient.Answer{Report: broken}).change(first), first, binary, 1, nil},
		"Unreported":       {begin(t, shared, first).serving(binary, 1).with(unreported).answer(buildclient.Answer{Binary: binary, Report: report}), first, binary, 1, []string{first}},
		"Steady":           {steady(), first, binary, 3, []string{first}},
		"SteadyAndStarved": {steady().pod(fetchFailed), first, other, 3, []string{first}},
		"BrokenAndLost":    {begin(t, shared, first).serving(binary, 0).change(second).answer(buildclient.Answer{Report: broken}).answerOf(first, rebuilt), first, other, 1, []string{second, first}},
		"StoppedAndTold":   {begin(t, shared, first).with(scale(0)).serving(binary, 0), first, binary, 0, nil},
		"StoppedAndFailed": {begin(t, shared, first).with(scale(0)).serving(binary, 0).with(failed), first, binary, 0, nil},
		"ToShared":         {begin(t, inPod, first).serving(nil, 1).with(inService), first, nil, 1, []string{first}},
		"ToSharedBuilt":    {begin(t, inPod, first).serving(nil, 1).with(inService).answer(buildclient.Answer{Binary: binary, Report: report}), first, binary, 1, []string{first}},
		"StrategyOfOthers": {begin(t, inPod, first).serving(nil, 1).under(shared), first, nil, 1, nil},
		"RefusedAndShared": {begin(t, shared, first).serving(binary, 1).change(refused), first, binary, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := test.scene.plan()
			var want []string
			for _, source := range test.ordered {
				want = append(want, desired.Revision(source))
			}
			if got := ordered(p); !slices.Equal(got, want) {
				t.Errorf("ordered %v, want %v", got, want)
			}
			wantDeployment(t, p.Deployment, test.revision, test.binary, test.replicas)
		})
	}
}

// Pods that have a binary of the source do not wait for the answer of the build service.
func TestRunning(t *testing.T) {
	for name, test := range map[string]struct {
		scene *scene
		want  bool
	}{
		"Nothing":   {begin(t, shared, first), false},
		"Built":     {begin(t, shared, first).serving(binary, 0), true},
		"Untold":    {begin(t, shared, first).deployed(binary, 0), true},
		"Otherwise": {begin(t, shared, first).serving(binary, 0).change(second), false},
	} {
		if got := test.scene.plan().Build.PodsHaveBinary; got != test.want {
			t.Errorf("%s: running is %t", name, got)
		}
	}
}

// A failed rebuild of a source whose binary is already running is reported only if pods cannot
// fetch that binary. Otherwise, such as after an upgrade of the build service, the failure does not
// affect the running function.
func TestReportOfARebuild(t *testing.T) {
	for _, reason := range []string{"CompileFailed", "BuildFailed"} {
		report := []byte(`{"reason":"` + reason + `"}`)
		scaled := func(ready int32) *scene { // being scaled to three replicas
			three := func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(3)) }
			return begin(t, shared, first).with(three).serving(binary, ready).answer(buildclient.Answer{Report: report})
		}
		for name, test := range map[string]struct {
			scene    *scene
			reported bool
		}{
			"ScalesUp":       {scaled(2), false},
			"Starts":         {scaled(2).pod(corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}), false},
			"StartsFromNone": {scaled(0), false},
			"Starved":        {scaled(2).pod(fetchFailed), true},
			"AllStarved":     {scaled(0).pod(fetchFailed), true},
			"Complete":       {scaled(3).with(unreported).answer(buildclient.Answer{Report: report}), false},
			"OtherSource":    {scaled(2).change(second).answer(buildclient.Answer{Report: report}), true},
		} {
			if got := test.scene.plan().Build.Report; (len(got) > 0) != test.reported {
				t.Errorf("%s, %s: the report is %q", reason, name, got)
			}
		}
	}
}

// fetchFailed is a container whose launcher could not fetch its binary.
var fetchFailed = corev1.ContainerStatus{LastTerminationState: corev1.ContainerState{
	Terminated: &corev1.ContainerStateTerminated{ExitCode: 125, Message: "not known here"},
}}

// inService selects the build service in the spec of a Function.
func inService(fn *v1beta1.Function) {
	fn.Spec.Build = &v1beta1.BuildSpec{Strategy: v1beta1.BuildShared}
}

// failed sets the status after a failed build, before the build service has tried again.
func failed(fn *v1beta1.Function) {
	fn.Status.Conditions = []metav1.Condition{{Type: v1beta1.ConditionBuilt, Status: metav1.ConditionFalse, Reason: v1beta1.ReasonBuildFailed}}
}

// unreported sets the status before the report of the build is copied to it.
func unreported(fn *v1beta1.Function) { fn.Status.Build = nil }

// wantDeployment compares a Deployment with the source that it should run; empty for no Deployment.
func wantDeployment(t *testing.T, d *appsv1ac.DeploymentApplyConfiguration, source string, binary *desired.Binary, replicas int32) {
	t.Helper()
	if d == nil || source == "" {
		if d != nil || source != "" {
			t.Errorf("unexpected Deployment %+v", d)
		}
		return
	}
	if got, want := desired.RevisionIn(d), desired.Revision(source); got != want {
		t.Errorf("revision %s, want %s", got, want)
	}
	if got := desired.BinaryIn(d); (got == nil) != (binary == nil) || got != nil && *got != *binary {
		t.Errorf("binary %v, want %v", got, binary)
	}
	if got := *d.Spec.Replicas; got != replicas {
		t.Errorf("%d replicas, want %d", got, replicas)
	}
}

// While the source is invalid and the last valid source is lost, the running Deployment is scaled
// and keeps its Service. No other object is applied.
func TestLostSource(t *testing.T) {
	s := begin(t, inPod, first).serving(nil, 1).change(refused)
	s.seen.Sources, s.fn.Spec.Replicas = nil, new(int32(3))
	p := s.plan()
	if p.Deployment == nil || *p.Deployment.Spec.Replicas != 3 || desired.TemplateIn(p.Deployment) != desired.TemplateIn(s.seen.OwnedFields) {
		t.Errorf("unexpected Deployment %+v", p.Deployment)
	}
	if p.Service == nil || p.Source != nil || p.NetworkPolicy != nil {
		t.Errorf("the plan should contain no other object than a Service: %+v", p)
	}
	sleeping := rolledOut(t, 0, 0, 1).change(refused)
	sleeping.seen.Sources = nil
	sleeping.seen.Deployment.Spec.Template.Labels[desired.TemplateLabel] = "of somebody else"
	if p := sleeping.plan(); p.Deployment == nil || p.Deployment.ResourceVersion == nil {
		t.Errorf("the Deployment should be applied with the resource version of the Snapshot: %+v", p.Deployment)
	}
}

// If the spec is invalid, no object is applied or deleted.
func TestRefusedSpec(t *testing.T) {
	s := begin(t, inPod, first).serving(nil, 1)
	s.own(s.seen.Budget, "f")
	s.fn.Spec.DrainSeconds, s.fn.Spec.Env = new(int32(9)), []v1beta1.EnvVar{{Name: "DRAIN_TIMEOUT", Value: "9s"}}
	s.seen.Verdict = validation.Function(s.fn, s.settings)
	p := s.plan()
	if p.Problem == nil || p.Deployment != nil || p.Service != nil || len(p.Delete) > 0 {
		t.Errorf("got %+v", p)
	}
}

// While the referenced values cannot be read, the Deployment keeps its hash of the values.
// A Deployment without such a hash is not planned, but the other objects are.
func TestUnreadValues(t *testing.T) {
	s := begin(t, inPod, first)
	s.seen.Values.Hash = "before"
	s.serving(nil, 1)
	s.seen.Values.Hash, s.seen.ValuesErr = "", errors.New("unreadable")
	p := s.plan()
	if p.DeploymentErr != nil || p.ValuesErr == nil || desired.TemplateIn(p.Deployment) != desired.TemplateIn(s.seen.OwnedFields) {
		t.Errorf("with previous values: %+v", p)
	}

	s = begin(t, inPod, first)
	s.seen.ValuesErr = errors.New("unreadable")
	if p := s.plan(); p.DeploymentErr == nil || p.Deployment != nil || p.Service == nil || p.Source == nil {
		t.Errorf("without values: %+v", p)
	}
}

// If the source cannot be read, nothing is planned.
func TestUnchecked(t *testing.T) {
	s := begin(t, inPod, first).serving(nil, 1)
	s.seen.CheckErr = errors.New("unreadable")
	if p := s.plan(); p.DeploymentErr == nil || p.Deployment != nil || p.Service != nil || len(p.Delete) > 0 {
		t.Errorf("got %+v", p)
	}
}

// A previous Service is deleted when the new one exists. The NetworkPolicy is deleted if another
// owner's policy selects the pods.
func TestDeletions(t *testing.T) {
	s := begin(t, inPod, first).serving(nil, 1)
	var former corev1.Service
	s.own(&former, "former")
	s.seen.Services = []corev1.Service{former}
	if got := deleted(s.plan()); len(got) > 0 {
		t.Errorf("deleted before the new Service exists: %v", got)
	}
	s.own(s.seen.Service, "f")
	if got := deleted(s.plan()); !slices.Equal(got, []string{"former"}) {
		t.Errorf("deleted %v, want the previous Service", got)
	}

	s = begin(t, inPod, first).serving(nil, 1)
	s.own(s.seen.NetworkPolicy, "policy")
	if p := s.plan(); p.NetworkPolicy == nil || len(p.Delete) > 0 {
		t.Errorf("without another policy: %+v", p)
	}
	s.seen.ForeignPolicies = []networkingv1.NetworkPolicy{{}} // selects all pods
	if p := s.plan(); p.NetworkPolicy != nil || !slices.Equal(deleted(p), []string{"policy"}) {
		t.Errorf("with another policy: %+v", p)
	}

	labelled := inPod
	labelled.PodMetadataPrefixes = []string{"team.example.com/"}
	s = begin(t, labelled, first).with(func(fn *v1beta1.Function) { fn.Labels = map[string]string{"team.example.com/name": "blue"} }).serving(nil, 1)
	s.own(s.seen.NetworkPolicy, "policy")
	s.seen.OwnedFields.Spec.Template.Annotations = nil // the previous values are unknown
	s.seen.ValuesErr = errors.New("unreadable")
	s.seen.ForeignPolicies = []networkingv1.NetworkPolicy{{Spec: networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: s.fn.Labels}}}}
	if p := s.plan(); p.Deployment != nil || p.NetworkPolicy != nil {
		t.Errorf("with another policy for the current pods: %+v", p)
	}
}

// New images and settings of the operator do not restart a function that is built, unless its image
// can no longer be pulled or the user requests an upgrade. A restart for another reason also
// applies them.
func TestNewImages(t *testing.T) {
	next := inPod
	next.Images, next.Build.Timeout = settings.Images{Builder: "builder:2", Function: "launcher:2"}, metav1.Duration{Duration: 7}
	always := next
	always.Rollout = settings.Always
	waits := func(reason string) corev1.ContainerStatus {
		return corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}
	}
	serving := func() *scene { return begin(t, inPod, first).serving(nil, 1).under(next) }
	for name, test := range map[string]struct {
		scene *scene
		taken bool
	}{
		"Built":    {serving(), false},
		"Scaled":   {serving().with(func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(4)) }), false},
		"Refused":  {serving().change(refused), false},
		"Starts":   {serving().pod(waits("PodInitializing")), false},
		"Lost":     {serving().pod(waits("ImagePullBackOff")), true},
		"Changed":  {serving().with(func(fn *v1beta1.Function) { fn.Spec.Concurrency = 2 }), true},
		"Asked":    {serving().with(func(fn *v1beta1.Function) { fn.Annotations = map[string]string{"goless.io/upgrade": "now"} }), true},
		"NotBuilt": {serving().with(func(fn *v1beta1.Function) { fn.Status.Conditions = nil }), true},
		"Always":   {serving().under(always), true},
		"Both":     {serving().under(always).change(refused), true},
	} {
		t.Run(name, func(t *testing.T) {
			want := []string{"builder:1", "launcher:1"}
			if test.taken {
				want = []string{"builder:2", "launcher:2"}
			}
			if got := images(test.scene.plan().Deployment); !slices.Equal(got, want) {
				t.Errorf("images %v, want %v", got, want)
			}
		})
	}
}

func images(d *appsv1ac.DeploymentApplyConfiguration) (images []string) {
	for _, c := range slices.Concat(d.Spec.Template.Spec.InitContainers, d.Spec.Template.Spec.Containers) {
		images = append(images, *c.Image)
	}
	return images
}

// Values above the maximums of the cluster are reduced to them and reported. A maximum that is
// lowered later reduces the replicas of a running function, but not its memory.
func TestCeilings(t *testing.T) {
	s := inPod
	s.Function.MaxReplicas, s.Function.MaxResources.Memory = 5, new(resource.MustParse("2Gi"))
	memory := func(fn *v1beta1.Function) {
		fn.Spec.Resources = &v1beta1.Resources{Limits: v1beta1.Amounts{Memory: new(resource.MustParse("4Gi"))}}
	}
	large := func(fn *v1beta1.Function) { memory(fn); fn.Spec.Replicas = new(int32(20)) }
	for name, test := range map[string]struct {
		scene    *scene
		told     string
		replicas int32
		memory   string
	}{
		"Replicas": {begin(t, s, first).with(func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(6)) }), "spec.replicas: Invalid value: 6: this cluster allows at most 5", 5, "256Mi"},
		"Memory":   {begin(t, s, first).with(memory), `spec.resources.limits.memory: Invalid value: "4Gi": this cluster allows at most 2Gi`, 1, "2Gi"},
		"Build": {begin(t, s, first).with(func(fn *v1beta1.Function) {
			fn.Spec.Build = &v1beta1.BuildSpec{Resources: &v1beta1.Resources{Requests: v1beta1.Amounts{CPU: new(resource.MustParse("5"))}}}
		}), `spec.build.resources.requests.cpu: Invalid value: "5": this cluster allows at most 4`, 1, "256Mi"},
		"BuildTimeout": {begin(t, s, first).with(func(fn *v1beta1.Function) {
			fn.Spec.Build = &v1beta1.BuildSpec{Timeout: &metav1.Duration{Duration: time.Hour}}
		}), `spec.build.timeout: Invalid value: "1h0m0s": this cluster allows at most 10m0s`, 1, "256Mi"},
		"Lowered": {begin(t, inPod, first).with(large).serving(nil, 20).under(s), "at most 5", 5, "4Gi"},
		"Lost":    {begin(t, inPod, first).with(large).under(s), "at most 2Gi", 5, "2Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			p := test.scene.plan()
			if p.Problem != nil || p.OverLimits == nil || !strings.Contains(p.OverLimits.Message, test.told) {
				t.Errorf("reported %+v and %+v, want %q", p.Problem, p.OverLimits, test.told)
			}
			c, builds := p.Deployment.Spec.Template.Spec.Containers[0], p.Deployment.Spec.Template.Spec.InitContainers[0]
			if got := (*c.Resources.Limits)[corev1.ResourceMemory]; got.String() != test.memory || *p.Deployment.Spec.Replicas != test.replicas {
				t.Errorf("got %s of memory for %d replicas", got.String(), *p.Deployment.Spec.Replicas)
			}
			if cpu := (*builds.Resources.Requests)[corev1.ResourceCPU]; cpu.Value() > 4 || slices.Contains(builds.Args, "1h0m0s") {
				t.Errorf("the builder has %s of CPU and arguments %v", cpu.String(), builds.Args)
			}
		})
	}
}

// A function with more than one replica has a PodDisruptionBudget unless the administrator has
// disabled it.
func TestBudget(t *testing.T) {
	without := inPod
	without.NoDisruptionBudgets = true
	for name, test := range map[string]struct {
		replicas int32
		settings settings.Settings
		most     int32 // spec.scaling.max; 0 for no spec.scaling
		want     bool
	}{
		"One": {1, inPod, 0, false}, "Several": {2, inPod, 0, true}, "Unwanted": {2, without, 0, false},
		"UpToOne": {2, inPod, 1, false}, "UpToTwo": {1, inPod, 2, true}, "Stopped": {0, inPod, 2, false},
	} {
		s := begin(t, test.settings, first).with(func(fn *v1beta1.Function) { fn.Spec.Replicas = &test.replicas })
		if test.most > 0 {
			s.with(scaling(0, test.most))
		}
		s.own(s.seen.Budget, "budget")
		if p := s.plan(); (p.Budget != nil) != test.want || slices.Contains(deleted(p), "budget") == test.want {
			t.Errorf("%s: budget %v, deletes %v", name, p.Budget, deleted(p))
		}
	}
}

// A revision that pods of an older ReplicaSet are waiting for is ordered, too.
func TestOrdersForReplicaSets(t *testing.T) {
	s := begin(t, shared, first).serving(binary, 1)
	older := appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Labels: s.seen.Deployment.Spec.Template.Labels}}
	older.Status = appsv1.ReplicaSetStatus{Replicas: 1, ReadyReplicas: 1}
	s.seen.ReplicaSets = []appsv1.ReplicaSet{older}
	s.change(second).serving(binary, 1)
	if got := ordered(s.plan()); len(got) > 0 {
		t.Errorf("while all pods are ready: ordered %v", got)
	}
	s.seen.ReplicaSets[0].Status.ReadyReplicas = 0
	if got := ordered(s.plan()); !slices.Equal(got, []string{desired.Revision(first)}) {
		t.Errorf("ordered %v", got)
	}
}
