package function_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/apiservertest"
)

func TestSchemaRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1beta1.Function)
		want   string
	}{
		"NoSource":        {func(fn *v1beta1.Function) { fn.Spec.Function = "" }, "spec.function"},
		"HugeSource":      {func(fn *v1beta1.Function) { fn.Spec.Function = strings.Repeat("/", 245761) }, "245760"},
		"AdminPort":       {func(fn *v1beta1.Function) { fn.Spec.ServerPort = 9090 }, "choose another"},
		"PortTooHigh":     {func(fn *v1beta1.Function) { fn.Spec.ServerPort = 65536 }, "65535"},
		"NegativePort":    {func(fn *v1beta1.Function) { fn.Spec.ServerPort = -1 }, "spec.serverPort"},
		"NegativeCount":   {func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(-1)) }, "spec.replicas"},
		"ServiceName":     {func(fn *v1beta1.Function) { fn.Spec.Service = "Not_A_Name" }, "service must be the name of a Service"},
		"LongServiceName": {func(fn *v1beta1.Function) { fn.Spec.Service = strings.Repeat("a", 64) }, "63"},
		"LongName":        {func(fn *v1beta1.Function) { fn.Name = strings.Repeat("a", 64) }, "metadata.name must be a DNS label"},
		"DottedName":      {func(fn *v1beta1.Function) { fn.Name = "a.b" }, "metadata.name must be a DNS label"},
		"DigitName":       {func(fn *v1beta1.Function) { fn.Name, fn.Spec.Service = "2048", "" }, "set spec.service"},
	} {
		t.Run(name, func(t *testing.T) {
			fn := template("schema")
			fn.Namespace = "default"
			test.change(fn)
			err := cluster.Create(t.Context(), fn)
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an invalid object and %q", err, test.want)
			}
			plain(t, err)
		})
	}
}

// The schema rejects as many errors as possible, with a message. Functions that it accepts can be
// decoded.
func TestSchemaRefusesFields(t *testing.T) {
	for name, test := range map[string]struct{ spec, want string }{
		"Reserved":           {`{"env":[{"name":"SERVER_PORT","value":"1"}]}`, "this name is reserved"},
		"ReservedPrefix":     {`{"env":[{"name":"FUNCTION_X","value":"1"}]}`, "this name is reserved"},
		"Twice":              {`{"env":[{"name":"A"},{"name":"A"}]}`, "Duplicate value"},
		"NoName":             {`{"env":[{"value":"1"}]}`, "spec.env[0].name"},
		"BadName":            {`{"env":[{"name":"A=B"}]}`, "spec.env[0].name"},
		"TwoValues":          {`{"env":[{"name":"A","value":"1","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}]}`, "not both"},
		"NoSource":           {`{"env":[{"name":"A","valueFrom":{}}]}`, "exactly one of"},
		"TwoSources":         {`{"env":[{"name":"A","valueFrom":{"secretKeyRef":{"name":"s","key":"k"},"configMapKeyRef":{"name":"s","key":"k"}}}]}`, "exactly one of"},
		"OtherField":         {`{"env":[{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"spec.serviceAccountName"}}}]}`, "Unsupported value"},
		"EnvFrom":            {`{"envFrom":[{"prefix":"A"}]}`, "exactly one of configMapRef and secretRef"},
		"EnvFromNoName":      {`{"envFrom":[{"secretRef":{}}]}`, "secretRef.name"},
		"ReferenceName":      {`{"envFrom":[{"configMapRef":{"name":"Not A Name!"}}]}`, "configMapRef.name"},
		"ReferenceKey":       {`{"env":[{"name":"A","valueFrom":{"secretKeyRef":{"name":"s","key":"a/b"}}}]}`, "secretKeyRef.key"},
		"FileName":           {`{"files":[{"name":"a/b","secret":{"name":"s"}}]}`, "spec.files[0].name"},
		"LongFileName":       {`{"files":[{"name":"` + strings.Repeat("a", 51) + `","secret":{"name":"s"}}]}`, "spec.files[0].name"},
		"FileTwice":          {`{"files":[{"name":"a","secret":{"name":"s"}},{"name":"a","secret":{"name":"t"}}]}`, "Duplicate value"},
		"NoFile":             {`{"files":[{"name":"a"}]}`, "exactly one of configMap and secret"},
		"TwoFiles":           {`{"files":[{"name":"a","secret":{"name":"s"},"configMap":{"name":"s"}}]}`, "exactly one of configMap and secret"},
		"FileKey":            {`{"files":[{"name":"a","secret":{"name":"s","keys":["a/b"]}}]}`, "secret.keys[0]"},
		"FileKeyParent":      {`{"files":[{"name":"a","secret":{"name":"s","keys":["k","..k"]}}]}`, "secret.keys[1]"},
		"FileKeyDot":         {`{"files":[{"name":"a","configMap":{"name":"s","keys":["."]}}]}`, "configMap.keys[0]"},
		"ReferenceKeyDots":   {`{"env":[{"name":"A","valueFrom":{"configMapKeyRef":{"name":"s","key":".."}}}]}`, "configMapKeyRef.key"},
		"FileKeyTwice":       {`{"files":[{"name":"a","secret":{"name":"s","keys":["k","k"]}}]}`, "Duplicate value"},
		"Deadline":           {`{"progressDeadlineSeconds":0}`, "spec.progressDeadlineSeconds"},
		"AppProtocol":        {`{"appProtocol":"grpc"}`, "spec.appProtocol"},
		"Account":            {`{"serviceAccountName":"A_B"}`, "spec.serviceAccountName"},
		"TokenOfNobody":      {`{"serviceAccountToken":{"audience":"a"}}`, "serviceAccountToken requires serviceAccountName"},
		"NoAudience":         {`{"serviceAccountName":"a","serviceAccountToken":{}}`, "spec.serviceAccountToken.audience"},
		"TokenForMinutes":    {`{"serviceAccountName":"a","serviceAccountToken":{"audience":"a","expirationSeconds":599}}`, "spec.serviceAccountToken.expirationSeconds"},
		"NoScratch":          {`{"scratch":{}}`, "spec.scratch.size"},
		"EmptyScratch":       {`{"scratch":{"size":"0Mi"}}`, "more than 0"},
		"ScratchSize":        {`{"scratch":{"size":"much"}}`, "scratch.size"},
		"NegativeSize":       {`{"scratch":{"size":-1}}`, "such as 256Mi"},
		"ScratchMedium":      {`{"scratch":{"size":"1Mi","medium":"HugePages"}}`, "scratch.medium"},
		"Strategy":           {`{"build":{"strategy":"Fast"}}`, "spec.build.strategy"},
		"History":            {`{"revisionHistoryLimit":-1}`, "spec.revisionHistoryLimit"},
		"Amount":             {`{"resources":{"limits":{"cpu":"lots"}}}`, "cpu"},
		"HugeExponent":       {`{"resources":{"limits":{"memory":"1e999999999"}}}`, "such as 256Mi"},
		"OddExponent":        {`{"resources":{"limits":{"cpu":"1E1.5"}}}`, "such as 2 or 500m"},
		"NegativeAmount":     {`{"resources":{"requests":{"cpu":-1}}}`, "such as 2 or 500m"},
		"NoLimit":            {`{"build":{"resources":{"limits":{"memory":"0"}}}}`, "a limit must be more than 0"},
		"NoLimitMi":          {`{"resources":{"limits":{"memory":"0Mi"}}}`, "a limit must be more than 0"},
		"NoLimitPoint":       {`{"resources":{"limits":{"cpu":"0.0"}}}`, "a limit must be more than 0"},
		"NoLimitNumber":      {`{"resources":{"limits":{"ephemeral-storage":0}}}`, "a limit must be more than 0"},
		"LongAmount":         {`{"build":{"resources":{"limits":{"cpu":"` + strings.Repeat("9", 40) + `"}}}}`, "such as 2 or 500m"},
		"Timeout":            {`{"timeout":"-1s"}`, "timeout must be a time such as"},
		"LongTimeout":        {`{"timeout":"61m"}`, "timeout must be 0s"},
		"NoTimeout":          {`{"timeout":"soon"}`, "timeout must be a time such as 30s or 1m30s"},
		"HugeTimeout":        {`{"timeout":"99999999999999999999h"}`, "spec.timeout"},
		"OverflowingTimeout": {`{"timeout":"9999999h"}`, "timeout must be a time such as"},
		"OverflowingBuild":   {`{"build":{"timeout":"9999999h"}}`, "timeout must be a time such as"},
		"OverflowingSleep":   {`{"scaling":{"sleepAfter":"9999999h"}}`, "sleepAfter must be a time such as"},
		"NumberTimeout":      {`{"timeout":30}`, "spec.timeout"},
		"UnitlessTimeout":    {`{"timeout":"30"}`, "timeout must be a time such as"},
		"BuildTimeout":       {`{"build":{"timeout":"0s"}}`, "timeout must be from 1s to 1h"},
		"Concurrency":        {`{"concurrency":-1}`, "spec.concurrency"},
		"DrainSeconds":       {`{"drainSeconds":3601}`, "spec.drainSeconds"},
		"NoReplica":          {`{"scaling":{"min":0,"max":0}}`, "spec.scaling.max"},
		"NegativeMin":        {`{"scaling":{"min":-1}}`, "spec.scaling.min"},
		"MaxBelowMin":        {`{"scaling":{"min":3,"max":2}}`, "max must not be less than min"},
		"NoCPU":              {`{"scaling":{"cpu":"0m"}}`, "more than 0"},
		"NegativeCPU":        {`{"scaling":{"cpu":-1}}`, "such as 2 or 500m"},
		"SleepSoon":          {`{"scaling":{"sleepAfter":"14s"}}`, "sleepAfter must be from 15s to 24h"},
		"VerifyNever":        {`{"rollout":{"verify":{"for":"9s"}}}`, "for must be from 10s to 1h"},
		"VerifyLong":         {`{"rollout":{"verify":{"for":"61m"}}}`, "for must be from 10s to 1h"},
		"VerifyDays":         {`{"rollout":{"verify":{"for":"1d"}}}`, "for must be a time such as 30s or 1m30s"},
		"AllErrors":          {`{"rollout":{"verify":{"maxErrors":"100%"}}}`, "maxErrors must be a percentage from 0% to 99.99%"},
		"ErrorShare":         {`{"rollout":{"verify":{"maxErrors":"0.05"}}}`, "maxErrors must be a percentage from 0% to 99.99%"},
		"NoRequests":         {`{"rollout":{"verify":{"minRequests":4}}}`, "minRequests"},
		"SleepLate":          {`{"scaling":{"sleepAfter":"24h1s"}}`, "sleepAfter must be from 15s to 24h"},
		"HugeMax":            {`{"scaling":{"max":3000000000}}`, "spec.scaling.max"},
		"HugeNumber":         {`{"concurrency":3000000000}`, "spec.concurrency"},
		"HugeReplicas":       {`{"replicas":3000000000}`, "spec.replicas"},
	} {
		t.Run(name, func(t *testing.T) {
			err := cluster.Create(t.Context(), raw(t, test.spec))
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "spec.") {
				t.Errorf("got %v, want an invalid object, the path of a field and %q", err, test.want)
			}
			plain(t, err)
		})
	}
	t.Run("Numbers", func(t *testing.T) {
		fn := raw(t, `{"resources":{"requests":{"cpu":0},"limits":{"cpu":2,"memory":"1.5Gi","ephemeral-storage":1000000000}},"timeout":"1m30s","scaling":{"min":0,"max":3,"cpu":1,"sleepAfter":"15s"},"rollout":{"verify":{"for":"1m30s","maxErrors":"0.5%","minRequests":5}},"files":[{"name":"a","secret":{"name":"s","keys":[".k","k..d"]}}]}`)
		fn.SetNamespace(apiservertest.NewNamespace(t, cluster))
		if err := cluster.Create(t.Context(), fn); err != nil {
			t.Error(err)
		}
	})
}

// plain fails the test if an error contains terms that users who write YAML do not know. Some
// errors of the API server have no path, for which it writes <nil>.
func plain(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	text := err.Error()
	for _, own := range []string{"<nil>: Invalid value: null: some validation rules", `<nil>: Invalid value: "": Checked value`} {
		text = strings.ReplaceAll(text, own, "")
	}
	if strings.Contains(text, "<nil>") || strings.Contains(text, "protobuf") {
		t.Errorf("unclear error %q", err)
	}
}

// raw returns a Function with spec fields as a user writes them.
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
