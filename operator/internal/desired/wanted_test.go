package desired

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
)

const (
	leanSpec = `{"function":"package handlers"}`

	// spelledOut is leanSpec with all defaults that there are, and one to come.
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

	tokenSpec = `{"function":"package handlers","serviceAccountName":"a","serviceAccountToken":{"audience":"b"}}`

	// tokenSpelledOut is tokenSpec with its defaults.
	tokenSpelledOut = `{"function":"package handlers","serviceAccountName":"a","serviceAccountToken":{"audience":"b","expirationSeconds":3600}}`

	// richSpelledOut is richSpec with defaults, in other words and with fields to come.
	richSpelledOut = `{"function":"package handlers","service":"other","replicas":7,"serverPort":9000,"timeout":"1m30s","concurrency":16,
		"env":[{"name":"A","value":"b"},{"name":"S","valueFrom":{"secretKeyRef":{"name":"s","key":"k","optional":false,"toCome":1}}},
			{"name":"C","value":"","valueFrom":{"configMapKeyRef":{"name":"c","key":"k","optional":true}}},
			{"name":"P","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}],
		"envFrom":[{"prefix":"P_","configMapRef":{"name":"c","optional":false}},{"prefix":"","secretRef":{"name":"s","optional":true}}],
		"resources":{"requests":{"cpu":"200m"},"limits":{"memory":"1Gi","ephemeral-storage":"1Gi"}},
		"build":{"strategy":"Shared","timeout":"120s","resources":{"requests":{},"limits":{"memory":"2Gi"}}}}`
)

// The hashes are on Deployments in clusters: another one of the same Function restarts
// it. Where one of these changes, all functions restart with the next version.
func TestWanted(t *testing.T) {
	plain := podMetadata{}
	metadata := podMetadata{labels: map[string]string{"pod.goless.io/a": "b"}, annotations: map[string]string{ValuesAnnotation: "0123456789"}}
	for name, test := range map[string]struct {
		spec, want string
		metadata   podMetadata
	}{
		"Lean":              {spec: leanSpec, want: "v1-22a2330cd7", metadata: plain},
		"SpelledOut":        {spec: spelledOut, want: "v1-22a2330cd7", metadata: plain},
		"DrainSeconds":      {spec: `{"function":"package handlers","drainSeconds":0}`, want: "v1-e605616ba1", metadata: plain},
		"Files":             {spec: filesSpec, want: "v1-c5d26817df", metadata: plain},
		"FilesSpelledOut":   {spec: filesSpelledOut, want: "v1-c5d26817df", metadata: plain},
		"Account":           {spec: `{"function":"package handlers","serviceAccountName":"a"}`, want: "v1-e80d513250", metadata: plain},
		"Token":             {spec: tokenSpec, want: "v1-dfdd048ed6", metadata: plain},
		"TokenSpelledOut":   {spec: tokenSpelledOut, want: "v1-dfdd048ed6", metadata: plain},
		"Scratch":           {spec: `{"function":"package handlers","scratch":{"size":"64Mi"}}`, want: "v1-764814cca6", metadata: plain},
		"ScratchSpelledOut": {spec: `{"function":"package handlers","scratch":{"size":"65536Ki","medium":"Disk"}}`, want: "v1-764814cca6", metadata: plain},
		"ScratchInMemory":   {spec: `{"function":"package handlers","scratch":{"size":"64Mi","medium":"Memory"}}`, want: "v1-70aada2f47", metadata: plain},
		"Metadata":          {spec: leanSpec, want: "v1-92b78c9f57", metadata: metadata},
		"Rich":              {spec: richSpec, want: "v1-0fe3ab5e81", metadata: plain},
		"RichSpelledOut":    {spec: richSpelledOut, want: "v1-0fe3ab5e81", metadata: plain},
	} {
		t.Run(name, func(t *testing.T) {
			var fn v1beta1.Function
			if err := json.Unmarshal([]byte(`{"spec":`+test.spec+`}`), &fn); err != nil || fn.Spec.Unreadable != "" {
				t.Fatal(err, fn.Spec.Unreadable)
			}
			if got := specHash(&fn, test.metadata); got != test.want {
				t.Errorf("it is %s, want %s", got, test.want)
			}
			fn.Spec.Summary, fn.Spec.Function = new(Summary(&fn)), ""
			if got := specHash(&fn, test.metadata); got != test.want {
				t.Errorf("without the source it is %s, want %s", got, test.want)
			}
		})
	}
}

// Every field of a spec makes pods, and is in the hash, or it makes none.
func TestEveryFieldIsWantedOrMakesNoPods(t *testing.T) {
	spec, hashed := paths("", reflect.TypeFor[v1beta1.FunctionSpec]()), paths("", reflect.TypeFor[wantedV1]())
	for _, name := range []string{".function", ".service", ".replicas", ".revisionHistoryLimit", ".progressDeadlineSeconds", ".appProtocol", ".scaling.min", ".scaling.max", ".scaling.cpu", ".scaling.sleepAfter"} {
		delete(spec, name)
	}
	for _, name := range []string{".source", ".labels", ".annotations", ".upgrade"} {
		delete(hashed, name)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(spec)), slices.Sorted(maps.Keys(hashed))); diff != "" {
		t.Errorf("wantedV1 lacks or has (-want +got):\n%s", diff)
	}
}

// paths are those of all fields in the JSON of a type.
func paths(path string, of reflect.Type) map[string]bool {
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice:
		return paths(path, of.Elem())
	case reflect.Struct:
		if of == reflect.TypeFor[resource.Quantity]() || of == reflect.TypeFor[metav1.Duration]() {
			break
		}
		all := map[string]bool{}
		for field := range of.Fields() {
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "-" {
				maps.Copy(all, paths(path+"."+name, field.Type))
			}
		}
		return all
	}
	return map[string]bool{path: true}
}
