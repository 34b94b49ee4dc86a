package function_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/apiservertest"
	"goless.io/operator/internal/desired"
)

// newClass creates a class for the namespaces with its name in their label "class", and deletes it
// at the end of the test.
func newClass(t *testing.T, name string, change func(*v1beta1.FunctionClass)) *v1beta1.FunctionClass {
	t.Helper()
	class := &v1beta1.FunctionClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	class.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"class": name}}
	change(class)
	if err := cluster.Create(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cluster.Delete(context.Background(), class) }) //nolint:errcheck // a test may have deleted it
	return class
}

// relabel sets the label "class" of a namespace.
func relabel(t *testing.T, namespace, class string) {
	t.Helper()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	before := client.MergeFrom(object.DeepCopy())
	object.Labels = map[string]string{"class": class}
	if err := cluster.Patch(t.Context(), object, before); err != nil {
		t.Fatal(err)
	}
}

// A class that was just applied is not reported as finished: Flux and Argo CD compare the observed
// generation. Its status contains the numbers that "kubectl get" prints.
func TestClassNotSeenYet(t *testing.T) {
	class := &unstructured.Unstructured{}
	class.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("FunctionClass"))
	class.SetName("unseen")
	if err := cluster.Create(t.Context(), class, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"observedGeneration": int64(-1), "functions": int64(0), "updatedFunctions": int64(0)}
	if diff := cmp.Diff(want, class.Object["status"]); diff != "" {
		t.Error(diff)
	}
}

// A class that does not exist or does not select the namespace is reported, and the Deployment is
// not changed. Otherwise the class is applied.
func TestClassByName(t *testing.T) {
	fn := create(t, "classified", func(*v1beta1.Function) {})
	serve(t, fn)
	before := await(t, fn, fn.Name, &appsv1.Deployment{}, nil)

	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.ClassName = "spot" })
	told := func(want string) {
		t.Helper()
		eventually(t, want, func() bool {
			c := meta.FindStatusCondition(get(t, fn).Status.Conditions, v1beta1.ConditionReady)
			return c.Reason == v1beta1.ReasonInvalidSpec && strings.Contains(c.Message, want)
		})
		if now := await(t, fn, fn.Name, &appsv1.Deployment{}, nil); now.Generation != before.Generation {
			t.Errorf("%s: the Deployment was changed", want)
		}
	}
	told(`spec.className: Invalid value: "spot": FunctionClass not found`)
	newClass(t, "spot", func(class *v1beta1.FunctionClass) {
		class.Spec.Tolerations = []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}}
	})
	told("spec.className: Forbidden: FunctionClass spot does not select namespace " + fn.Namespace)
	relabel(t, fn.Namespace, "spot")
	await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool {
		tolerations := d.Spec.Template.Spec.Tolerations
		return len(tolerations) > 0 && tolerations[0].Key == "spot" && d.Labels[desired.ClassLabel] != ""
	})
	serve(t, fn)
}

// A class counts its functions. The number is updated when a function gets another class.
func TestClassLosesFunctions(t *testing.T) {
	namespace := apiservertest.NewNamespace(t, cluster)
	relabel(t, namespace, "left")
	var classes []*v1beta1.FunctionClass
	for _, name := range []string{"left", "right"} {
		classes = append(classes, newClass(t, name, func(class *v1beta1.FunctionClass) {
			class.Annotations = map[string]string{v1beta1.DefaultClassAnnotation: "true"}
		}))
	}
	serve(t, create(t, "moved", func(fn *v1beta1.Function) { fn.Namespace = namespace }))
	count := func(left, right int32) {
		t.Helper()
		for i, want := range []int32{left, right} {
			eventually(t, fmt.Sprintf("class %s counts %d functions", classes[i].Name, want), func() bool {
				var now v1beta1.FunctionClass
				if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(classes[i]), &now); err != nil {
					t.Fatal(err)
				}
				return now.Status.ObservedGeneration == now.Generation && now.Status.Functions == want
			})
		}
	}
	count(1, 0)
	relabel(t, namespace, "right")
	count(0, 1)
}

// Two default classes that select the same namespace report each other and the namespace, also if
// the namespace is created later, until one of them is no longer a default class.
func TestDefaultConflict(t *testing.T) {
	var classes []*v1beta1.FunctionClass
	for _, name := range []string{"first", "second"} {
		classes = append(classes, newClass(t, name, func(class *v1beta1.FunctionClass) {
			class.Annotations = map[string]string{v1beta1.DefaultClassAnnotation: "true"}
			class.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"class": "disputed"}}
		}))
	}
	reported := func(want string) {
		t.Helper()
		for _, class := range classes {
			eventually(t, fmt.Sprintf("class %s reports the conflict %q", class.Name, want), func() bool {
				var now v1beta1.FunctionClass
				if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(class), &now); err != nil {
					t.Fatal(err)
				}
				c := meta.FindStatusCondition(now.Status.Conditions, v1beta1.ConditionDefaultConflict)
				settled := meta.FindStatusCondition(now.Status.Conditions, v1beta1.ConditionReady) != nil
				return settled && (c == nil) == (want == "") && (c == nil || c.Status == metav1.ConditionTrue && strings.Contains(c.Message, want))
			})
		}
	}
	reported("")
	disputed := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "disputed-", Labels: map[string]string{"class": "disputed"}}}
	if err := cluster.Create(t.Context(), disputed); err != nil {
		t.Fatal(err)
	}
	reported("the default of namespace " + disputed.Name + ": ")
	before := client.MergeFrom(classes[1].DeepCopy())
	classes[1].Annotations = nil
	if err := cluster.Patch(t.Context(), classes[1], before); err != nil {
		t.Fatal(err)
	}
	reported("")
}

// A default class with an invalid selector, which only the webhook rejects, has no functions and
// reports the error. It does not affect Functions without a class.
func TestClassWithInvalidSelector(t *testing.T) {
	class := newClass(t, "invalid", func(class *v1beta1.FunctionClass) {
		class.Annotations = map[string]string{v1beta1.DefaultClassAnnotation: "true"}
		class.Spec.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}}
	})
	serve(t, create(t, "classless", func(*v1beta1.Function) {}))
	eventually(t, "class reports the error", func() bool {
		if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(class), class); err != nil {
			t.Fatal(err)
		}
		c := meta.FindStatusCondition(class.Status.Conditions, v1beta1.ConditionReady)
		return c != nil && c.Reason == v1beta1.ReasonInvalidSpec && strings.Contains(c.Message, `"Is" is not a valid label selector operator`)
	})
}

// A new default class, and each change of it, is rolled out to the functions one after another if
// they are few, and the class reports the progress. Functions in other namespaces do not change. No
// function changes when the class is deleted.
func TestStagedRollout(t *testing.T) {
	namespace := apiservertest.NewNamespace(t, cluster)
	relabel(t, namespace, "rollouts")
	var all []*v1beta1.Function
	for i := range 3 {
		fn := create(t, fmt.Sprintf("rollout-%d", i), func(fn *v1beta1.Function) {
			fn.Namespace, fn.Spec.Service = namespace, fmt.Sprintf("rollout-%d", i)
		})
		serve(t, fn)
		all = append(all, fn)
	}
	other := create(t, "elsewhere", func(*v1beta1.Function) {})
	serve(t, other)
	stays := await(t, other, other.Name, &appsv1.Deployment{}, nil).Generation

	class := newClass(t, "rollouts", func(class *v1beta1.FunctionClass) {
		class.Annotations = map[string]string{v1beta1.DefaultClassAnnotation: "true"}
		class.Spec.PriorityClassName = "first"
	})
	reaches(t, class, all)
	before := client.MergeFrom(class.DeepCopy())
	class.Spec.PriorityClassName = "second"
	if err := cluster.Patch(t.Context(), class, before); err != nil {
		t.Fatal(err)
	}
	reaches(t, class, all)

	generation := await(t, all[0], all[0].Name, &appsv1.Deployment{}, nil).Generation
	if err := cluster.Delete(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	looks := reconciles(t)
	change(t, all[0], func(fn *v1beta1.Function) { fn.Labels = map[string]string{"look": "again"} })
	eventually(t, "operator has reconciled again", func() bool { return reconciles(t) > looks })
	for fn, want := range map[*v1beta1.Function]int64{all[0]: generation, other: stays} {
		if now := await(t, fn, fn.Name, &appsv1.Deployment{}, nil); now.Generation != want {
			t.Errorf("%s: Deployment has generation %d, want %d", fn.Name, now.Generation, want)
		}
	}
	// A change of the spec is rolled out without the class.
	change(t, all[0], func(fn *v1beta1.Function) { fn.Spec.Concurrency = 1 })
	await(t, all[0], all[0].Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool {
		return d.Spec.Template.Spec.PriorityClassName == "" && d.Labels[desired.ClassLabel] == ""
	})
}

// reaches waits until a class is rolled out to all of three functions, and checks that each rollout
// waits for the completion of the previous one.
func reaches(t *testing.T, class *v1beta1.FunctionClass, all []*v1beta1.Function) {
	t.Helper()
	var now v1beta1.FunctionClass
	says := func(want metav1.ConditionStatus, updated int) bool {
		if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(class), &now); err != nil {
			t.Fatal(err)
		}
		c := meta.FindStatusCondition(now.Status.Conditions, v1beta1.ConditionRolledOut)
		return c != nil && c.Status == want && c.ObservedGeneration == now.Generation &&
			now.Status.Functions == 3 && now.Status.UpdatedFunctions == int32(updated)
	}
	isOfClass := func(d *appsv1.Deployment) bool {
		return d.Spec.Template.Spec.PriorityClassName == class.Spec.PriorityClassName
	}
	for i, fn := range all {
		await(t, fn, fn.Name, &appsv1.Deployment{}, isOfClass)
		eventually(t, fmt.Sprintf("class reports %d updated functions", i+1), func() bool { return says(metav1.ConditionFalse, i+1) })
		for _, next := range all[i+1:] {
			if isOfClass(await(t, next, next.Name, &appsv1.Deployment{}, nil)) {
				t.Errorf("%s is rolled out before %s is complete", next.Name, fn.Name)
			}
		}
		serve(t, fn)
	}
	eventually(t, "class rolled out to all functions", func() bool { return says(metav1.ConditionTrue, 3) })
}

// inClass creates a default class and functions in a new namespace, and waits until the class is
// rolled out to all of them.
func inClass(t *testing.T, name string, functions int) (*v1beta1.FunctionClass, []*v1beta1.Function) {
	t.Helper()
	namespace := apiservertest.NewNamespace(t, cluster)
	relabel(t, namespace, name)
	class := newClass(t, name, func(class *v1beta1.FunctionClass) {
		class.Annotations = map[string]string{v1beta1.DefaultClassAnnotation: "true"}
		class.Spec.PriorityClassName = "first"
	})
	var all []*v1beta1.Function
	for i := range functions {
		fn := create(t, fmt.Sprintf("%s-%d", name, i), func(fn *v1beta1.Function) {
			fn.Namespace, fn.Spec.Service = namespace, fmt.Sprintf("%s-%d", name, i)
		})
		// The first Deployment may be created before the operator's cache contains the class.
		await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return d.Spec.Template.Spec.PriorityClassName == "first" })
		serve(t, fn)
		all = append(all, fn)
	}
	return class, all
}

// changeClass changes the spec of a class.
func changeClass(t *testing.T, class *v1beta1.FunctionClass, edit func(*v1beta1.FunctionClassSpec)) {
	t.Helper()
	before := client.MergeFrom(class.DeepCopy())
	edit(&class.Spec)
	if err := cluster.Patch(t.Context(), class, before); err != nil {
		t.Fatal(err)
	}
}

// changed returns the names of the functions whose pods have a PriorityClass.
func changed(t *testing.T, all []*v1beta1.Function, priority string) (names []string) {
	t.Helper()
	for _, fn := range all {
		if await(t, fn, fn.Name, &appsv1.Deployment{}, nil).Spec.Template.Spec.PriorityClassName == priority {
			names = append(names, fn.Name)
		}
	}
	return names
}

// A change of a class that the API server rejects is tried only on as many functions as may roll
// out at the same time. The corrected class is not rolled out to more of them at once either.
func TestRefusedClass(t *testing.T) {
	class, all := inClass(t, "refused", 3)
	changeClass(t, class, func(spec *v1beta1.FunctionClassSpec) { spec.Labels = map[string]string{"not-in-the-policy": "x"} })
	awaitReady(t, all[0], v1beta1.ReasonApplyFailed)
	eventually(t, "class reports the failed function", func() bool {
		return strings.Contains(rolledOutOf(t, class).Message, all[0].Namespace+"/refused-0")
	})
	for _, fn := range all[1:] {
		if !has(t, fn, v1beta1.ConditionReady) {
			t.Errorf("the class was rolled out to %s although the previous function failed", fn.Name)
		}
	}
	changeClass(t, class, func(spec *v1beta1.FunctionClassSpec) { spec.Labels, spec.PriorityClassName = nil, "second" })
	eventually(t, "corrected class rolled out to one function", func() bool { return len(changed(t, all, "second")) > 0 })
	awaitReady(t, all[0], v1beta1.ReasonBuilding)
	if got := changed(t, all, "second"); len(got) > 1 {
		t.Errorf("%v are rolled out at the same time", got)
	}
	for _, fn := range all {
		await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return d.Spec.Template.Spec.PriorityClassName == "second" })
		serve(t, fn)
	}
}

// If a class changes during its rollout, the functions that are rolling out are updated first.
func TestClassChangesAgain(t *testing.T) {
	class, all := inClass(t, "again", 3)
	changeClass(t, class, func(spec *v1beta1.FunctionClassSpec) { spec.PriorityClassName = "second" })
	eventually(t, "one function rolls out", func() bool { return len(changed(t, all, "second")) > 0 })
	changeClass(t, class, func(spec *v1beta1.FunctionClassSpec) { spec.PriorityClassName = "third" })
	eventually(t, "class reports its latest generation", func() bool {
		return rolledOutOf(t, class).ObservedGeneration == class.Generation && class.Status.UpdatedFunctions > 0
	})
	awaitReady(t, all[0], v1beta1.ReasonBuilding)
	if got := changed(t, all, "first"); len(got) != 2 {
		t.Errorf("functions that do not roll out: %v, want two", got)
	}
	for _, fn := range all {
		await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return d.Spec.Template.Spec.PriorityClassName == "third" })
		serve(t, fn)
	}
}

// A class is not rolled out if the rollout of a function has exceeded its deadline. It stays ready, so
// that Flux continues.
func TestClassGivenUp(t *testing.T) {
	class, all := inClass(t, "hopeless", 1)
	changeClass(t, class, func(spec *v1beta1.FunctionClassSpec) { spec.PriorityClassName = "second" })
	d := await(t, all[0], all[0].Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return d.Spec.Template.Spec.PriorityClassName == "second" })
	before := client.MergeFrom(d.DeepCopy())
	d.Status = appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: 2, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1, UnavailableReplicas: 1,
		Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"}},
	}
	if err := cluster.Status().Patch(t.Context(), d, before); err != nil {
		t.Fatal(err)
	}
	eventually(t, "class reports the failed function", func() bool {
		return strings.Contains(rolledOutOf(t, class).Message, all[0].Namespace+"/hopeless-0")
	})
	if rolledOutOf(t, class).Status != metav1.ConditionFalse || !meta.IsStatusConditionTrue(class.Status.Conditions, v1beta1.ConditionReady) {
		t.Errorf("the class is rolled out or not ready: %+v", class.Status)
	}
}

// rolledOutOf updates class from the API server and returns its condition RolledOut; the zero value
// if it has none.
func rolledOutOf(t *testing.T, class *v1beta1.FunctionClass) (rolledOut metav1.Condition) {
	t.Helper()
	if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(class), class); err != nil {
		t.Fatal(err)
	}
	if c := meta.FindStatusCondition(class.Status.Conditions, v1beta1.ConditionRolledOut); c != nil {
		rolledOut = *c
	}
	return rolledOut
}

// A class with all fields causes no writes after it is rolled out.
func TestClassCausesNoWrites(t *testing.T) {
	disk := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: corev1.NodeSelectorOpExists}}}
	newClass(t, "full", func(class *v1beta1.FunctionClass) {
		class.Spec = everything(class.Spec.NamespaceSelector)
		class.Spec.Affinity = &corev1.Affinity{
			NodeAffinity:    &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{disk}}},
			PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: "rack", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}}}},
		}
	})
	namespace := apiservertest.NewNamespace(t, cluster)
	relabel(t, namespace, "full")
	fn := create(t, "full", func(fn *v1beta1.Function) {
		fn.Namespace, fn.Spec.ClassName, fn.Spec.Replicas = namespace, "full", new(int32(2))
	})
	eventually(t, "access policy reports the parameter for the label of the class", func() bool {
		c := meta.FindStatusCondition(get(t, fn).Status.Conditions, v1beta1.ConditionReady)
		return c != nil && c.Reason == v1beta1.ReasonApplyFailed && strings.Contains(c.Message, "fence.goless.io/")
	})
	listed := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "goless-operator-deployments"}}
	before := client.MergeFrom(listed.DeepCopy())
	listed.Annotations = map[string]string{"fence.goless.io/labels": "team", "fence.goless.io/annotations": "example.com/owner"}
	if err := cluster.Patch(t.Context(), listed, before); err != nil {
		t.Fatal(err)
	}
	causesNoWrites(t, fn)
}

// everything returns a spec with every field that changes pods, except for the affinity.
func everything(namespaces *metav1.LabelSelector) v1beta1.FunctionClassSpec {
	return v1beta1.FunctionClassSpec{
		NamespaceSelector: namespaces,
		ImagePullSecrets:  []corev1.LocalObjectReference{{Name: "registry"}, {Name: "another"}},
		NodeSelector:      map[string]string{"pool": "functions", "arch": ""},
		Tolerations:       []corev1.Toleration{{Key: "spot"}, {Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(7))}},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{
			{TopologyKey: "rack", MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule},
			{TopologyKey: "row", MaxSkew: 2, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}},
		},
		PriorityClassName: "batch", RuntimeClassName: "gvisor",
		PodUser: &v1beta1.PodUser{RunAsUser: new(int64(1000)), FSGroup: new(int64(2000))},
		Labels:  map[string]string{"team": "blue"}, Annotations: map[string]string{"example.com/owner": ""},
		Resources: v1beta1.Resources{Limits: v1beta1.Amounts{CPU: new(resource.MustParse("1.0001"))}},
		Build:     v1beta1.ClassBuild{Strategy: v1beta1.BuildInPod, Resources: v1beta1.Resources{Limits: v1beta1.Amounts{Memory: new(resource.MustParse("1024Mi"))}}},
	}
}

// The API server refuses classes that the access policy would reject.
func TestSchemaOfClasses(t *testing.T) {
	for name, test := range map[string]struct {
		spec v1beta1.FunctionClassSpec
		want string
	}{
		"System":     {v1beta1.FunctionClassSpec{PriorityClassName: "system-node-critical"}, "not allowed for functions"},
		"Root":       {v1beta1.FunctionClassSpec{PodUser: &v1beta1.PodUser{RunAsUser: new(int64(0))}}, "spec.podUser.runAsUser"},
		"RootGroup":  {v1beta1.FunctionClassSpec{PodUser: &v1beta1.PodUser{FSGroup: new(int64(0))}}, "spec.podUser.fsGroup"},
		"NoID":       {v1beta1.FunctionClassSpec{PodUser: &v1beta1.PodUser{RunAsUser: new(int64(1 << 31))}}, "spec.podUser.runAsUser"},
		"BundleKey":  {v1beta1.FunctionClassSpec{Build: v1beta1.ClassBuild{Modules: &v1beta1.Modules{CABundle: v1beta1.KeyOf{Name: "ca", Key: "../ca"}}}}, "spec.build.modules.caBundle.key"},
		"Label":      {v1beta1.FunctionClassSpec{Labels: map[string]string{"goless.io/function": "other"}}, "are reserved"},
		"Annotation": {v1beta1.FunctionClassSpec{Annotations: map[string]string{"goless.io/values": "x"}}, "are reserved"},
		"FileProxy":  {v1beta1.FunctionClassSpec{Build: v1beta1.ClassBuild{Modules: &v1beta1.Modules{GoProxy: "https://proxy.example.com|file:///x"}}}, "must not have a file: URL"},
		"FileSums":   {v1beta1.FunctionClassSpec{Build: v1beta1.ClassBuild{Modules: &v1beta1.Modules{GoSumDB: "sum.example+key file:///x"}}}, "must not have a file: URL"},
	} {
		err := cluster.Create(t.Context(), &v1beta1.FunctionClass{ObjectMeta: metav1.ObjectMeta{Name: "refused"}, Spec: test.spec})
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "spec.") {
			t.Errorf("%s: %v, want %q and the path of a field", name, err, test.want)
		}
	}
}
