package function_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// everyField sets every field that the API has, with values that the API server
// stores in another form or not at all.
func everyField(fn *v1beta1.Function) {
	fn.Labels = map[string]string{"pod.goless.io/team": "blue"}
	fn.Annotations = map[string]string{"pod.goless.io/note": "", "goless.io/upgrade": "1"}
	fn.Spec.Env = []v1beta1.EnvVar{
		{Name: "Z", Value: "last in the alphabet"},
		{Name: "A", Value: "$(Z)"},
		{Name: "EMPTY"},
		{Name: "LOG_LEVEL", Value: "debug"},
		{Name: "C", ValueFrom: &v1beta1.EnvVarSource{ConfigMapKeyRef: &v1beta1.KeyRef{Name: "c", Key: "k", Optional: new(false)}}},
		{Name: "S", ValueFrom: &v1beta1.EnvVarSource{SecretKeyRef: &v1beta1.KeyRef{Name: "s", Key: "k"}}},
		{Name: "F", ValueFrom: &v1beta1.EnvVarSource{FieldRef: &v1beta1.FieldRef{FieldPath: "status.podIP"}}},
	}
	fn.Spec.EnvFrom = []v1beta1.EnvFromSource{
		{ConfigMapRef: &v1beta1.ObjectRef{Name: "c", Optional: new(true)}},
		{Prefix: "P_", SecretRef: &v1beta1.ObjectRef{Name: "s"}},
	}
	fn.Spec.Resources = &v1beta1.Resources{
		Requests: v1beta1.Amounts{CPU: new(resource.MustParse("0.0001")), Memory: new(resource.MustParse("1024Mi"))},
		Limits:   v1beta1.Amounts{CPU: new(resource.MustParse("1000m")), Memory: new(resource.MustParse("1.5Gi"))},
	}
	fn.Spec.Timeout = &metav1.Duration{Duration: 1500 * time.Millisecond}
	fn.Spec.Concurrency = 7
	fn.Spec.Replicas = new(int32(2))
	fn.Spec.Build = &v1beta1.BuildSpec{
		Resources: &v1beta1.Resources{Limits: v1beta1.Amounts{Memory: new(resource.MustParse("1Gi"))}},
		Timeout:   &metav1.Duration{Duration: 90 * time.Second},
	}
}

// Every field of the spec reaches the container that it is for, and no other.
func TestFieldsReachTheirContainer(t *testing.T) {
	fn := create(t, "fields", everyField)
	deployment := await(t, fn, fn.Name, &appsv1.Deployment{}, nil)
	template := deployment.Spec.Template
	serves, builds := template.Spec.Containers[0], template.Spec.InitContainers[0]
	env := map[string]string{}
	for _, v := range serves.Env {
		env[v.Name] = v.Value
	}
	for name, want := range map[string]string{
		"A": "$(Z)", "LOG_LEVEL": "debug", "REQUEST_TIMEOUT": "1.5s", "REQUEST_CONCURRENCY": "7", "SERVER_PORT": "9000",
	} {
		if env[name] != want {
			t.Errorf("%s is %q, want %q", name, env[name], want)
		}
	}
	if len(builds.Env)+len(builds.EnvFrom) > 0 {
		t.Errorf("the builder sees %v %v", builds.Env, builds.EnvFrom)
	}
	if len(serves.EnvFrom) != 2 || serves.EnvFrom[1].Prefix != "P_" || serves.EnvFrom[1].SecretRef.Name != "s" {
		t.Errorf("envFrom is %v", serves.EnvFrom)
	}
	if got := serves.Resources.Limits.Cpu().String() + " " + serves.Resources.Limits.Memory().String() + " " + serves.Resources.Requests.Cpu().String(); got != "1 1536Mi 1m" {
		t.Errorf("the resources of the function are %s", got)
	}
	if got := builds.Resources.Limits.Memory().String(); got != "1Gi" {
		t.Errorf("the memory of the builder is %s", got)
	}
	if args := strings.Join(builds.Args, " "); !strings.Contains(args, "--timeout 1m30s") {
		t.Errorf("the builder is called with %s", args)
	}
	if template.Labels["pod.goless.io/team"] != "blue" {
		t.Errorf("the labels of the pods are %v", template.Labels)
	}
}

// A change of each field is a change of the pods.
func TestFieldsChange(t *testing.T) {
	fn := create(t, "changes", everyField)
	before := await(t, fn, fn.Name, &appsv1.Deployment{}, ownedByApply)
	for name, edit := range map[string]func(*v1beta1.Function){
		"env":         func(fn *v1beta1.Function) { fn.Spec.Env = []v1beta1.EnvVar{{Name: "NEW", Value: "new"}} },
		"env gone":    func(fn *v1beta1.Function) { fn.Spec.Env = nil },
		"envFrom":     func(fn *v1beta1.Function) { fn.Spec.EnvFrom = fn.Spec.EnvFrom[:1] },
		"resources":   func(fn *v1beta1.Function) { fn.Spec.Resources = nil },
		"timeout":     func(fn *v1beta1.Function) { fn.Spec.Timeout = &metav1.Duration{} },
		"concurrency": func(fn *v1beta1.Function) { fn.Spec.Concurrency = 0 },
		"build":       func(fn *v1beta1.Function) { fn.Spec.Build = nil },
		"label":       func(fn *v1beta1.Function) { fn.Labels = nil },
		"annotation":  func(fn *v1beta1.Function) { fn.Annotations = nil },
	} {
		change(t, fn, edit)
		after := await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool {
			return d.Generation > before.Generation
		})
		if cmp.Equal(before.Spec.Template, after.Spec.Template) {
			t.Errorf("%s: the template is the same", name)
		}
		before = after
	}
}

// Several replicas have a budget for disruptions, a single one has none.
func TestDisruptionBudget(t *testing.T) {
	fn := create(t, "several", func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(2)) })
	budget := await(t, fn, fn.Name, &policyv1.PodDisruptionBudget{}, ownedByApply)
	if !metav1.IsControlledBy(budget, fn) {
		t.Errorf("it belongs to %v", budget.OwnerReferences)
	}
	before := client.MergeFrom(budget.DeepCopy())
	budget.Spec.MaxUnavailable = new(intstr.FromInt32(2))
	if err := cluster.Patch(t.Context(), budget, before); err != nil {
		t.Fatal(err)
	}
	await(t, fn, fn.Name, budget, func(b *policyv1.PodDisruptionBudget) bool { return b.Spec.MaxUnavailable.IntVal == 1 })
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(1)) })
	eventually(t, "the budget goes", func() bool { return !exists(t, fn, fn.Name, &policyv1.PodDisruptionBudget{}) })
}

// A budget that somebody has made under our name is enough, and left alone.
func TestBudgetOfSomebodyElse(t *testing.T) {
	namespace := newNamespace(t)
	theirs := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "own", Namespace: namespace},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(1))},
	}
	if err := cluster.Create(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	fn := create(t, "own", func(fn *v1beta1.Function) { fn.Namespace, fn.Spec.Replicas = namespace, new(int32(2)) })
	serve(t, fn)
	if now := await(t, fn, fn.Name, &policyv1.PodDisruptionBudget{}, nil); now.ResourceVersion != theirs.ResourceVersion {
		t.Errorf("it was written: %v", now.ManagedFields)
	}
	s := configured
	s.NoDisruptionBudgets, s.Namespaces = true, []string{namespace}
	other := create(t, "two", func(fn *v1beta1.Function) {
		fn.Namespace, fn.Spec.Service, fn.Spec.Replicas = namespace, "", new(int32(2))
	})
	budget := await(t, other, other.Name, &policyv1.PodDisruptionBudget{}, ownedByApply)
	exchangeOperator(t, s, &writeLog{})
	eventually(t, "the budget goes", func() bool { return !exists(t, other, other.Name, budget) })
}

// Functions have NetworkPolicies where the administrator wants them to, and no
// longer than that.
func TestNetworkPolicy(t *testing.T) {
	fn := create(t, "isolated", func(*v1beta1.Function) {})
	await(t, fn, fn.Name, &appsv1.Deployment{}, ownedByApply)
	if exists(t, fn, fn.Name, &networkingv1.NetworkPolicy{}) {
		t.Error("there is a policy that nobody asked for")
	}
	s := configured
	s.NetworkPolicy, s.Namespaces = true, []string{fn.Namespace}
	exchangeOperator(t, s, &writeLog{})
	policy := await(t, fn, fn.Name, &networkingv1.NetworkPolicy{}, ownedByApply)
	if !metav1.IsControlledBy(policy, fn) {
		t.Errorf("it belongs to %v", policy.OwnerReferences)
	}
	s.NetworkPolicy = false
	exchangeOperator(t, s, &writeLog{})
	eventually(t, "the policy goes", func() bool { return !exists(t, fn, fn.Name, policy) })
}

// What is above the ceilings of the cluster is brought down to them, and says so.
func TestCeilings(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1beta1.Function)
		want   string
	}{
		"Replicas": {func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(51)) }, "spec.replicas: this cluster allows at most 50"},
		"Memory": {func(fn *v1beta1.Function) {
			fn.Spec.Resources = &v1beta1.Resources{Limits: v1beta1.Amounts{Memory: new(resource.MustParse("9Gi"))}}
		}, "spec.resources.limits: 9Gi of memory: this cluster allows at most 8Gi"},
		"Build": {func(fn *v1beta1.Function) {
			fn.Spec.Build = &v1beta1.BuildSpec{Resources: &v1beta1.Resources{Requests: v1beta1.Amounts{CPU: new(resource.MustParse("5"))}}}
		}, "spec.build.resources.requests: 5 of cpu: this cluster allows at most 4"},
		"BuildTimeout": {func(fn *v1beta1.Function) {
			fn.Spec.Build = &v1beta1.BuildSpec{Timeout: &metav1.Duration{Duration: time.Hour}}
		}, "spec.build.timeout: this cluster allows at most 10m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			fn := create(t, "ceiling", test.change)
			if ready := awaitReady(t, fn, v1beta1.ReasonInvalidSpec); !strings.Contains(ready.Message, test.want) {
				t.Errorf("Ready says %q, want %q", ready.Message, test.want)
			}
			if !has(t, fn, v1beta1.ConditionStalled) {
				t.Error("it is not stalled")
			}
			d := await(t, fn, fn.Name, &appsv1.Deployment{}, nil)
			memory := d.Spec.Template.Spec.Containers[0].Resources.Limits.Memory()
			cpu, args := d.Spec.Template.Spec.InitContainers[0].Resources.Requests.Cpu(), strings.Join(d.Spec.Template.Spec.InitContainers[0].Args, " ")
			if *d.Spec.Replicas > 50 || memory.Cmp(resource.MustParse("8Gi")) > 0 || cpu.Cmp(resource.MustParse("4")) > 0 || strings.Contains(args, "1h") {
				t.Errorf("%d replicas, %s of memory, %s for the builder, %s", *d.Spec.Replicas, memory, cpu, args)
			}
		})
	}
}

// What contradicts itself cannot be applied at all; of a source nobody has looked
// into nothing is said.
func TestContradiction(t *testing.T) {
	fn := create(t, "contradicts", func(fn *v1beta1.Function) {
		fn.Spec.Function = "this is not Go"
		fn.Spec.Resources = &v1beta1.Resources{
			Requests: v1beta1.Amounts{CPU: new(resource.MustParse("2"))}, Limits: v1beta1.Amounts{CPU: new(resource.MustParse("1"))},
		}
	})
	ready := awaitReady(t, fn, v1beta1.ReasonInvalidSpec)
	if want := "spec.resources: the request of 2 cpu is more than the limit of 1"; ready.Message != want {
		t.Errorf("Ready says %q, want %q", ready.Message, want)
	}
	now := get(t, fn).Status
	if has(t, fn, v1beta1.ConditionSourceValid) || now.LatestRevision != "" || exists(t, fn, fn.Name, &appsv1.Deployment{}) {
		t.Errorf("the status is %+v", now)
	}
}

// A ceiling that comes later takes nothing away from what runs.
func TestLoweredCeiling(t *testing.T) {
	fn := create(t, "tall", func(fn *v1beta1.Function) {
		fn.Spec.Replicas = new(int32(20))
		fn.Spec.Resources = &v1beta1.Resources{Limits: v1beta1.Amounts{Memory: new(resource.MustParse("4Gi"))}}
	})
	serve(t, fn)
	s := configured
	s.Function.MaxReplicas, s.Namespaces = 10, []string{fn.Namespace}
	s.Function.MaxResources.Memory = new(resource.MustParse("2Gi"))
	exchangeOperator(t, s, &writeLog{})
	ready := awaitReady(t, fn, v1beta1.ReasonInvalidSpec)
	if !strings.Contains(ready.Message, "at most 10") || !strings.Contains(ready.Message, "at most 2Gi") {
		t.Errorf("Ready says %q", ready.Message)
	}
	limit := func(d *appsv1.Deployment) string {
		return d.Spec.Template.Spec.Containers[0].Resources.Limits.Memory().String()
	}
	deployment := await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 10 })
	if limit(deployment) != "4Gi" {
		t.Errorf("pods that run were restarted for a memory of %s", limit(deployment))
	}
	if err := cluster.Delete(t.Context(), deployment); err != nil {
		t.Fatal(err)
	}
	await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return d.UID != deployment.UID && limit(d) == "2Gi" })
}

// The schema refuses at once what it can, with a message. What is not refused
// can be decoded: one object that cannot would hide all of them.
func TestSchemaRefusesFields(t *testing.T) {
	for name, test := range map[string]struct{ spec, want string }{
		"Reserved":       {`{"env":[{"name":"SERVER_PORT","value":"1"}]}`, "this variable is set by Goless"},
		"ReservedPrefix": {`{"env":[{"name":"FUNCTION_X","value":"1"}]}`, "this variable is set by Goless"},
		"Twice":          {`{"env":[{"name":"A"},{"name":"A"}]}`, "Duplicate value"},
		"NoName":         {`{"env":[{"value":"1"}]}`, "spec.env[0].name"},
		"BadName":        {`{"env":[{"name":"A=B"}]}`, "spec.env[0].name"},
		"TwoValues":      {`{"env":[{"name":"A","value":"1","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}]}`, "not both"},
		"NoSource":       {`{"env":[{"name":"A","valueFrom":{}}]}`, "exactly one of"},
		"TwoSources":     {`{"env":[{"name":"A","valueFrom":{"secretKeyRef":{"name":"s","key":"k"},"configMapKeyRef":{"name":"s","key":"k"}}}]}`, "exactly one of"},
		"OtherField":     {`{"env":[{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"spec.serviceAccountName"}}}]}`, "Unsupported value"},
		"EnvFrom":        {`{"envFrom":[{"prefix":"A"}]}`, "exactly one of configMapRef and secretRef"},
		"EnvFromNoName":  {`{"envFrom":[{"secretRef":{}}]}`, "secretRef.name"},
		"ReferenceName":  {`{"envFrom":[{"configMapRef":{"name":"Not A Name!"}}]}`, "configMapRef.name"},
		"ReferenceKey":   {`{"env":[{"name":"A","valueFrom":{"secretKeyRef":{"name":"s","key":"a/b"}}}]}`, "secretKeyRef.key"},
		"Amount":         {`{"resources":{"limits":{"cpu":"lots"}}}`, "cpu"},
		"HugeExponent":   {`{"resources":{"limits":{"memory":"1e999999999"}}}`, "such as 256Mi"},
		"OddExponent":    {`{"resources":{"limits":{"cpu":"1E1.5"}}}`, "such as 2 or 500m"},
		"NegativeAmount": {`{"resources":{"requests":{"cpu":-1}}}`, "such as 2 or 500m"},
		"NoLimit":        {`{"build":{"resources":{"limits":{"memory":"0"}}}}`, "a limit must be more than 0"},
		"NoLimitMi":      {`{"resources":{"limits":{"memory":"0Mi"}}}`, "a limit must be more than 0"},
		"NoLimitPoint":   {`{"resources":{"limits":{"cpu":"0.0"}}}`, "a limit must be more than 0"},
		"NoLimitNumber":  {`{"resources":{"limits":{"ephemeral-storage":0}}}`, "a limit must be more than 0"},
		"LongAmount":     {`{"build":{"resources":{"limits":{"cpu":"` + strings.Repeat("9", 40) + `"}}}}`, "such as 2 or 500m"},
		"Timeout":        {`{"timeout":"-1s"}`, "timeout must be 0s"},
		"LongTimeout":    {`{"timeout":"61m"}`, "timeout must be 0s"},
		"NoTimeout":      {`{"timeout":"soon"}`, "spec.timeout in body should match"},
		"HugeTimeout":    {`{"timeout":"99999999999999999999h"}`, "spec.timeout"},
		"BuildTimeout":   {`{"build":{"timeout":"0s"}}`, "timeout must be from 1s to 1h"},
		"Concurrency":    {`{"concurrency":-1}`, "spec.concurrency"},
		"HugeNumber":     {`{"concurrency":3000000000}`, "spec.concurrency"},
		"HugeReplicas":   {`{"replicas":3000000000}`, "spec.replicas"},
	} {
		t.Run(name, func(t *testing.T) {
			err := cluster.Create(t.Context(), raw(t, test.spec))
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an invalid object and %q", err, test.want)
			}
		})
	}
	t.Run("Numbers", func(t *testing.T) {
		fn := raw(t, `{"resources":{"requests":{"cpu":0},"limits":{"cpu":2,"memory":"1.5Gi","ephemeral-storage":1000000000}},"timeout":"1m30s"}`)
		fn.SetNamespace(newNamespace(t))
		if err := cluster.Create(t.Context(), fn); err != nil {
			t.Error(err)
		}
	})
}

// raw is a Function with fields of the spec as a user writes them.
func raw(t *testing.T, spec string) *unstructured.Unstructured {
	t.Helper()
	fn := template("raw")
	fn.Namespace = "default"
	fn.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("Function"))
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(fn)
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]any{}
	if err := json.Unmarshal([]byte(spec), &fields); err != nil {
		t.Fatal(err)
	}
	maps.Copy(content["spec"].(map[string]any), fields)
	delete(content, "status")
	return &unstructured.Unstructured{Object: content}
}
