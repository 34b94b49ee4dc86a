package desired

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/yaml"

	"goless.io/operator/api/v1beta1"
)

const (
	leanSpec = `{"function":"package handlers"}`

	// spelledOut is leanSpec with all defaults and one field of a later version.
	spelledOut = `{"function":"package handlers","serverPort":8080,"replicas":1,"revisionHistoryLimit":5,"timeout":"60s",
		"concurrency":0,"env":[],"envFrom":[],"files":[],"resources":{"requests":{},"limits":{}},"build":{"strategy":"","resources":{}},
		"fieldToCome":{"strategy":"Default"}}`

	richSpec = `{"function":"package handlers","serverPort":9000,"timeout":"90s","concurrency":16,
		"env":[{"name":"A","value":"b"},{"name":"S","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}},
			{"name":"C","valueFrom":{"configMapKeyRef":{"name":"c","key":"k","optional":true}}},
			{"name":"P","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}],
		"envFrom":[{"prefix":"P_","configMapRef":{"name":"c"}},{"secretRef":{"name":"s","optional":true}}],
		"resources":{"requests":{"cpu":"0.2"},"limits":{"memory":"1024Mi","ephemeral-storage":"1Gi"}},
		"build":{"strategy":"Shared","timeout":"2m","resources":{"limits":{"memory":"2Gi"}}}}`

	filesSpec = `{"function":"package handlers","files":[{"name":"a","configMap":{"name":"c"}},{"name":"b","secret":{"name":"s","keys":["k"],"optional":true}}]}`

	// filesSpelledOut is filesSpec with its defaults.
	filesSpelledOut = `{"function":"package handlers","files":[{"name":"a","configMap":{"name":"c","keys":[],"optional":false}},{"name":"b","secret":{"name":"s","keys":["k"],"optional":true}}]}`

	scratchSpec = `{"function":"package handlers","scratch":{"size":"64Mi"}}`

	tokenSpec = `{"function":"package handlers","serviceAccountName":"a","serviceAccountToken":{"audience":"b"}}`

	// tokenSpelledOut is tokenSpec with its defaults.
	tokenSpelledOut = `{"function":"package handlers","serviceAccountName":"a","serviceAccountToken":{"audience":"b","expirationSeconds":3600}}`

	// richSpelledOut is richSpec with defaults, other notations, and fields of a later version.
	richSpelledOut = `{"function":"package handlers","service":"other","replicas":7,"serverPort":9000,"timeout":"1m30s","concurrency":16,
		"env":[{"name":"A","value":"b"},{"name":"S","valueFrom":{"secretKeyRef":{"name":"s","key":"k","optional":false,"toCome":1}}},
			{"name":"C","value":"","valueFrom":{"configMapKeyRef":{"name":"c","key":"k","optional":true}}},
			{"name":"P","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}],
		"envFrom":[{"prefix":"P_","configMapRef":{"name":"c","optional":false}},{"prefix":"","secretRef":{"name":"s","optional":true}}],
		"resources":{"requests":{"cpu":"200m"},"limits":{"memory":"1Gi","ephemeral-storage":"1Gi"}},
		"build":{"strategy":"Shared","timeout":"120s","resources":{"requests":{},"limits":{"memory":"2Gi"}},"test":true,"testEnv":[{"name":"A"}]}}`
)

// Deployments in clusters have these hashes. If one of them changes, an upgrade restarts all
// functions.
func TestSpecHash(t *testing.T) {
	plain := podMetadata{}
	metadata := podMetadata{labels: map[string]string{"pod.goless.io/a": "b"}, annotations: map[string]string{ValuesAnnotation: "0123456789"}}
	for name, test := range map[string]struct {
		spec, want string
		metadata   podMetadata
	}{
		"Lean":              {spec: leanSpec, want: "v1-be10bc7f33", metadata: plain},
		"SpelledOut":        {spec: spelledOut, want: "v1-be10bc7f33", metadata: plain},
		"DrainSeconds":      {spec: `{"function":"package handlers","drainSeconds":0}`, want: "v1-19b934f728", metadata: plain},
		"Files":             {spec: filesSpec, want: "v1-bfa8fe8b60", metadata: plain},
		"FilesSpelledOut":   {spec: filesSpelledOut, want: "v1-bfa8fe8b60", metadata: plain},
		"Account":           {spec: `{"function":"package handlers","serviceAccountName":"a"}`, want: "v1-468b61e80e", metadata: plain},
		"Token":             {spec: tokenSpec, want: "v1-fc97eb4fd0", metadata: plain},
		"TokenSpelledOut":   {spec: tokenSpelledOut, want: "v1-fc97eb4fd0", metadata: plain},
		"Scratch":           {spec: scratchSpec, want: "v1-6062e32f35", metadata: plain},
		"ScratchSpelledOut": {spec: `{"function":"package handlers","scratch":{"size":"65536Ki","medium":"Disk"}}`, want: "v1-6062e32f35", metadata: plain},
		"ScratchInMemory":   {spec: `{"function":"package handlers","scratch":{"size":"64Mi","medium":"Memory"}}`, want: "v1-60815c83fa", metadata: plain},
		"Metadata":          {spec: leanSpec, want: "v1-c3c504bc7a", metadata: metadata},
		"Rich":              {spec: richSpec, want: "v1-e514918242", metadata: plain},
		"RichSpelledOut":    {spec: richSpelledOut, want: "v1-e514918242", metadata: plain},
	} {
		t.Run(name, func(t *testing.T) {
			fn := functionOf(t, test.spec)
			if got := specHash(fn, test.metadata); got != test.want {
				t.Errorf("hash %s, want %s", got, test.want)
			}
			fn.Spec.Summary, fn.Spec.Function = new(Summary(fn)), ""
			if got := specHash(fn, test.metadata); got != test.want {
				t.Errorf("without the source: hash %s, want %s", got, test.want)
			}
		})
	}
}

// A new default in the schema of the API does not restart functions that omit the field.
func TestSpecHashOfDefaults(t *testing.T) {
	text, err := os.ReadFile("../../../deploy/10-crd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd map[string]any
	if err := yaml.Unmarshal([]byte(strings.Split(string(text), "\n---\n")[1]), &crd); err != nil {
		t.Fatal(err)
	}
	versions, _, _ := unstructured.NestedSlice(crd, "spec", "versions")
	schema, found, err := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec")
	if !found || err != nil {
		t.Fatal("the CustomResourceDefinition has no schema of the spec", err)
	}
	for _, spec := range []string{leanSpec, richSpec, filesSpec, tokenSpec, scratchSpec} {
		var content map[string]any
		if err := json.Unmarshal([]byte(spec), &content); err != nil {
			t.Fatal(err)
		}
		fillDefaults(content, schema)
		defaulted, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		if string(defaulted) == spec {
			t.Fatalf("%s receives no defaults", spec)
		}
		want, got := specHash(functionOf(t, spec), podMetadata{}), specHash(functionOf(t, string(defaulted)), podMetadata{})
		if got != want {
			t.Errorf("the hash of %s is %s, and with the defaults of the schema %s; omit them in specHash", spec, want, got)
		}
	}
}

// fillDefaults sets the defaults of a schema in an object, like an API server.
func fillDefaults(object, schema map[string]any) {
	properties, _ := schema["properties"].(map[string]any)
	for name, property := range properties {
		property := property.(map[string]any)
		if _, ok := object[name]; !ok && property["default"] != nil {
			object[name] = property["default"]
		}
		if inner, ok := object[name].(map[string]any); ok {
			fillDefaults(inner, property)
		}
	}
}

// The hash contains exactly the fields that change the pods.
func TestSpecHashOfEveryField(t *testing.T) {
	before := specHash(functionOf(t, leanSpec), podMetadata{})
	for field, same := range map[string]bool{
		`"service":"other"`: true, `"appProtocol":"http"`: true, `"replicas":7`: true, `"scaling":{"min":0}`: true,
		`"revisionHistoryLimit":1`: true, `"progressDeadlineSeconds":60`: true,
		`"className":"c"`: false, `"serverPort":9000`: false, `"env":[{"name":"A"}]`: false, `"envFrom":[{"secretRef":{"name":"s"}}]`: false,
		`"files":[{"name":"a","configMap":{"name":"c"}}]`: false, `"scratch":{"size":"64Mi"}`: false, `"serviceAccountName":"a"`: false,
		`"serviceAccountToken":{"audience":"b"}`: false, `"resources":{"limits":{"cpu":"1"}}`: false, `"timeout":"0s"`: false,
		`"concurrency":1`: false, `"drainSeconds":0`: false, `"build":{"timeout":"1m"}`: false,
	} {
		got := specHash(functionOf(t, leanSpec[:len(leanSpec)-1]+","+field+"}"), podMetadata{})
		if (got == before) != same {
			t.Errorf("with %s the hash is %s, and without it %s", field, got, before)
		}
	}
}

// A template with tolerations of a class is kept although its hash is of an earlier release, which
// hashed the fields of each toleration.
func TestTemplateHashOfTolerations(t *testing.T) {
	template := corev1ac.PodTemplateSpec().WithLabels(map[string]string{FunctionLabel: "a"}).
		WithSpec(corev1ac.PodSpec().WithTolerations(corev1ac.Toleration().WithKey("spot"), corev1ac.Toleration().WithKey("gpu")))
	text, names := templateContent(template)
	former := digits(text) + "-" + Digest(names)
	for _, hash := range []string{former, templateHash(template)} {
		template.Labels[TemplateLabel] = hash
		if !IsIntactTemplate(template) {
			t.Errorf("%s is not the hash of the template", hash)
		}
	}
	if former == templateHash(template) {
		t.Error("both releases have the same hash")
	}
	template.Spec.Tolerations = nil
	if IsIntactTemplate(template) {
		t.Error("tolerations of another owner are not detected")
	}
}

func functionOf(t *testing.T, spec string) *v1beta1.Function {
	t.Helper()
	var fn v1beta1.Function
	if err := json.Unmarshal([]byte(`{"spec":`+spec+`}`), &fn); err != nil || fn.Spec.Unreadable != "" {
		t.Fatal(err, fn.Spec.Unreadable)
	}
	return &fn
}
