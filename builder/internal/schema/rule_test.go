package schema

import (
	"fmt"
	"regexp"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestRules checks that values that violate rules of the schema, which the API server enforces, are
// reported with their position.
func TestRules(t *testing.T) {
	for spec, want := range map[string]string{
		`serverPort: 9090`:                         `4:33: spec.serverPort: serverPort 9090 is reserved for metrics and health checks; choose another port`,
		`timeout: 61m`:                             `4:30: spec.timeout: timeout must be 0s, for none, or from 1ms to 1h`,
		`build: {timeout: 0s}`:                     `4:38: spec.build.timeout: timeout must be from 1s to 1h`,
		`scaling: {sleepAfter: 14s}`:               `4:43: spec.scaling.sleepAfter: sleepAfter must be from 15s to 24h`,
		`scaling: {min: 3, max: 2}`:                `4:30: spec.scaling: max must not be less than min, which defaults to 1`,
		`scaling: {max: 3, requests: 10}`:          `<nil>`,
		`scaling: {requests: 10, cpu: 500m}`:       `4:30: spec.scaling: set cpu or requests, not both`,
		`scaling: {requests: 0}`:                   `4:41: spec.scaling.requests must be at least 1`,
		`scaling: {requests: 11}, concurrency: 10`: `4:7: spec: requests must not be more than concurrency, which is the most that a replica serves at the same time`,
		`scaling: {requests: 10}, concurrency: 10`: `<nil>`,
		`scaling: {min: 0, windows: [{schedule: "@daily", duration: 10h, min: 1}]}`:      `<nil>`,
		`scaling: {min: 0, windows: [{schedule: "@daily", duration: 10h, min: 2}]}`:      `4:30: spec.scaling: windows[].min must not exceed scaling.max, which defaults to scaling.min or 1, whichever is greater`,
		`scaling: {min: 2, windows: [{schedule: "@daily", duration: 10h, min: 2}]}`:      `<nil>`,
		`scaling: {max: 3, windows: [{schedule: "@every 1h", duration: 10h, min: 3}]}`:   `4:60: spec.scaling.windows[0].schedule: schedule must have five fields, or be a word such as @daily; set timeZone for a time zone`,
		`scaling: {max: 3, windows: [{schedule: "@daily", duration: 30s, min: 3}]}`:      `4:80: spec.scaling.windows[0].duration: duration must be from 1m to 168h`,
		`scaling: {requests: 10}, concurrency: 0`:                                        `<nil>`,
		`scaling: {max: 0x7fffffff}`:                                                     `<nil>`,
		`replicas: 0x80000000`:                                                           `4:31: spec.replicas must be at most 2147483647`,
		`scratch: {size: 0Mi}`:                                                           `4:37: spec.scratch.size: must be more than 0`,
		`serviceAccountToken: {audience: a}`:                                             `4:7: spec: serviceAccountToken requires serviceAccountName`,
		`resources: {limits: {ephemeral-storage: 0}}`:                                    `4:41: spec.resources.limits: a limit must be more than 0`,
		`resources: {limits: {cpu: -1}}`:                                                 `4:47: spec.resources.limits.cpu: must be a number with an optional unit, such as 2 or 500m`,
		`env: [{name: FUNCTION_X}]`:                                                      `4:34: spec.env[0].name: this name is reserved: use spec.serverPort, spec.timeout or spec.concurrency, or choose another name`,
		`env: [{name: A, valueFrom: {}}]`:                                                `4:48: spec.env[0].valueFrom: give exactly one of configMapKeyRef, secretKeyRef and fieldRef`,
		`env: [{name: A, value: "1", valueFrom: {fieldRef: {fieldPath: metadata.uid}}}]`: `4:27: spec.env[0]: give value or valueFrom, not both`,
		`env: [{name: A, value: "", valueFrom: {fieldRef: {fieldPath: metadata.uid}}}]`:  `<nil>`,
		`env: [{name: A}, {name: B}, {name: A}]`:                                         `4:49: duplicate spec.env[2]: A`,
		`files: [{name: a, secret: {name: s, keys: [k, k]}}]`:                            `4:67: duplicate spec.files[0].secret.keys[1]: k`,
		`files: [{name: a, secret: {name: s}, configMap: null}]`:                         `<nil>`,
	} {
		object := functionOf(t, spec)
		if want != "<nil>" {
			want = "f.yaml:" + want
		}
		if got := fmt.Sprint(CheckFunction("f.yaml", object)); got != want {
			t.Errorf("%s: %s\nwant %s", spec, got, want)
		}
	}
}

// TestFieldsTogether checks that what the operator rejects regardless of the settings of the
// cluster is reported with its position.
func TestFieldsTogether(t *testing.T) {
	for spec, want := range map[string]string{
		`drainSeconds: 0, env: [{name: DRAIN_TIMEOUT}]`:                                             `4:35: spec.drainSeconds: spec.env sets DRAIN_TIMEOUT, which is the same setting; remove one of them`,
		`drainSeconds: null, env: [{name: DRAIN_TIMEOUT}]`:                                          `<nil>`,
		`scaling: {cpu: 500m}, resources: {limits: {cpu: "0.5"}}`:                                   `4:36: spec.scaling.cpu must be less than spec.resources.limits.cpu (0.5); otherwise no replica could exceed the target, and the function would never scale up`,
		`scaling: {cpu: 499999u}, resources: {limits: {cpu: "0.5"}}`:                                `<nil>`,
		`resources: {requests: {memory: 2Mi}, limits: {memory: 2M}}`:                                `4:52: spec.resources.requests.memory exceeds the limit of 2M`,
		`resources: {requests: {memory: 1048576}, limits: {memory: 1024Ki}}`:                        `<nil>`,
		`build: {resources: {requests: {cpu: 3}, limits: {cpu: 2500m}}}`:                            `4:57: spec.build.resources.requests.cpu exceeds the limit of 2500m`,
		`scratch: {size: 1Gi, medium: Memory}, resources: {limits: {memory: 512Mi}}`:                `4:37: spec.scratch.size must be less than spec.resources.limits.memory (512Mi), because files in /tmp count towards it`,
		`scratch: {size: 512Mi, medium: Memory}, resources: {limits: {memory: 0.5Gi}}`:              `4:37: spec.scratch.size must be less than spec.resources.limits.memory (0.5Gi), because files in /tmp count towards it`,
		`scratch: {size: 511Mi, medium: Memory}, resources: {limits: {memory: 512Mi}}`:              `<nil>`,
		`scratch: {size: 2Gi}, resources: {limits: {memory: 512Mi, ephemeral-storage: "1.5Gi"}}`:    `4:37: spec.scratch.size must be less than spec.resources.limits.ephemeral-storage (1.5Gi), because files in /tmp count towards it`,
		`scratch: {size: 1Gi, medium: Disk}, resources: {limits: {memory: 1Mi}}`:                    `<nil>`,
		`scratch: {size: 1Gi, medium: Memory}`:                                                      `<nil>`,
		`scratch: {size: 1Gi, medium: Memory}, resources: {limits: {memory: null}, requests: null}`: `<nil>`,
	} {
		object := functionOf(t, spec)
		if want != "<nil>" {
			want = "f.yaml:" + want
		}
		if got := fmt.Sprint(CheckFunction("f.yaml", object)); got != want {
			t.Errorf("%s: %s\nwant %s", spec, got, want)
		}
	}
}

// TestWarnings covers limits that are compared with the defaults of Goless, because those of a
// cluster are unknown.
func TestWarnings(t *testing.T) {
	const inMemory = "4:37: spec.scratch.size must be less than spec.resources.limits.memory (256Mi), because files in /tmp count towards it; some clusters have another default, so set spec.resources.limits.memory"
	for spec, want := range map[string]string{
		`replicas: 1`:                            "",
		`scratch: {size: 255Mi, medium: Memory}`: "",
		`scratch: {size: 256Mi, medium: Memory}`: inMemory,
		`scratch: {size: 256Mi}`:                 "",
		`scratch: {size: 1Gi, medium: Disk}`:     "4:37: spec.scratch.size must be less than spec.resources.limits.ephemeral-storage (1Gi), because files in /tmp count towards it; some clusters have another default, so set spec.resources.limits.ephemeral-storage",
		`scratch: {size: 1Gi, medium: Memory}, resources: {limits: {memory: 1Mi}}`:      "", // an error
		`scratch: {size: 1Gi, medium: Memory}, resources: {limits: {memory: null}}`:     inMemory,
		`scratch: {size: 1Gi, medium: Memory}, resources: {requests: {memory: 1025Mi}}`: "",
		`scratch: {size: 1Gi, medium: Memory}, resources: {requests: {memory: 1Gi}}`:    inMemory,
	} {
		object := functionOf(t, spec)
		var got string
		for _, w := range Warnings("f.yaml", object) {
			got += w.String()
		}
		if want != "" {
			want = "f.yaml:" + want
		}
		if got != want {
			t.Errorf("%s: %s\nwant %s", spec, got, want)
		}
	}
}

// functionOf returns a Function with fields in its spec, which are in line 4.
func functionOf(t *testing.T, spec string) *yaml.Node {
	t.Helper()
	text := "apiVersion: goless.io/v1beta1\nkind: Function\nmetadata: {name: a}\nspec: {function: p, " + spec + "}\n"
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		t.Fatal(err)
	}
	return document.Content[0]
}

// skipped are the rules that cannot be compiled here, so only the API server checks them.
var skipped []string

// TestRulesCompile checks that all rules can be compiled, except those that are listed.
func TestRulesCompile(t *testing.T) {
	count := 0
	var notCompiled []string
	var walk func(s *schema)
	walk = func(s *schema) {
		if s == nil {
			return
		}
		for _, r := range s.Rules {
			r.holds("") // must not panic
			if !r.compiled() {
				notCompiled = append(notCompiled, r.Rule)
			}
			count++
		}
		if _, err := regexp.Compile(s.Pattern); err != nil {
			t.Error(err)
		}
		walk(s.Values)
		walk(s.Items)
		for _, property := range s.Properties {
			walk(property)
		}
	}
	root, _ := functionSchema()
	walk(root)
	for _, d := range otherDefinitions() {
		walk(d.root)
	}
	slices.Sort(notCompiled)
	if !slices.Equal(skipped, notCompiled) {
		t.Errorf("rules that are not compiled: %q\nwant %q", notCompiled, skipped)
	}
	if count < 60 {
		t.Errorf("there are only %d rules", count)
	}
}

// TestRuleSkipped checks that a rule that needs features of the API server is skipped.
func TestRuleSkipped(t *testing.T) {
	for _, text := range []string{"self == oldSelf", "isURL(self)", "self.("} {
		if r := (&rule{Rule: text}); r.compiled() || !r.holds("") {
			t.Errorf("%s is not skipped", text)
		}
	}
}
