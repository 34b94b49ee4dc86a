package input

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// The rules of the schema are those of the API server: a value that one of them refuses is told at
// its place.
func TestRules(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.yaml")
	for spec, want := range map[string]string{
		`serverPort: 9090`:                            `4:33: spec.serverPort: serverPort 9090 is taken by the metrics and health checks of the function: choose another`,
		`timeout: 61m`:                                `4:30: spec.timeout: timeout must be 0s, for none, or from 1ms to 1h`,
		`build: {timeout: 0s}`:                        `4:38: spec.build.timeout: timeout must be from 1s to 1h`,
		`scaling: {sleepAfter: 14s}`:                  `4:43: spec.scaling.sleepAfter: sleepAfter must be from 15s to 24h`,
		`scaling: {min: 3, max: 2}`:                   `4:30: spec.scaling: max must not be less than min, which is 1 when left out`,
		`scaling: {max: 0x7fffffff}`:                  `<nil>`,
		`replicas: 0x80000000`:                        `4:31: spec.replicas must be at most 2147483647`,
		`scratch: {size: 0Mi}`:                        `4:37: spec.scratch.size: must be more than 0`,
		`serviceAccountToken: {audience: a}`:          `4:7: spec: it is a token of serviceAccountName: set that too`,
		`resources: {limits: {ephemeral-storage: 0}}`: `4:41: spec.resources.limits: a limit must be more than 0`,
		`resources: {limits: {cpu: -1}}`:              `4:47: spec.resources.limits.cpu: must be a number with an optional unit, such as 2 or 500m`,
		`env: [{name: FUNCTION_X}]`:                   `4:34: spec.env[0].name: this variable is set by Goless: use spec.serverPort, spec.timeout or spec.concurrency, or choose another name`,
		`env: [{name: A, valueFrom: {}}]`:             `4:48: spec.env[0].valueFrom: give exactly one of configMapKeyRef, secretKeyRef and fieldRef`,
		`env: [{name: A, value: "1", valueFrom: {fieldRef: {fieldPath: metadata.uid}}}]`: `4:27: spec.env[0]: give value or valueFrom, not both`,
		`env: [{name: A, value: "", valueFrom: {fieldRef: {fieldPath: metadata.uid}}}]`:  `<nil>`,
		`env: [{name: A}, {name: B}, {name: A}]`:                                         `4:49: spec.env[2] is there twice: A`,
		`files: [{name: a, secret: {name: s, keys: [k, k]}}]`:                            `4:67: spec.files[0].secret.keys[1] is there twice: k`,
		`files: [{name: a, secret: {name: s}, configMap: null}]`:                         `<nil>`,
	} {
		text := "apiVersion: goless.io/v1beta1\nkind: Function\nmetadata: {name: a}\nspec: {function: p, " + spec + "}\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		functions, _, err := Read(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if want != "<nil>" {
			want = path + ":" + want
		}
		if got := fmt.Sprint(functions[0].CheckFields()); got != want {
			t.Errorf("%s: %s\nwant %s", spec, got, want)
		}
	}
}

// All rules can be compiled here: none needs a function that only the API server has.
func TestRulesCompile(t *testing.T) {
	root, _ := functionSchema()
	count := 0
	var walk func(s *schema)
	walk = func(s *schema) {
		if s == nil {
			return
		}
		for _, r := range s.Rules {
			r.holds("") // panics where it cannot be compiled
			count++
		}
		walk(s.Values)
		walk(s.Items)
		for _, property := range s.Properties {
			walk(property)
		}
	}
	walk(root)
	if count < 20 {
		t.Errorf("there are only %d rules", count)
	}
}
