package input_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"goless.io/builder/internal/input"
)

// complete is a Function with fields of all types, in all notations.
const complete = `apiVersion: goless.io/v1beta1
kind: Function
metadata: {name: a-1, labels: {any: thing}}
spec:
  service: web
  serverPort: 0x1F90
  replicas: 2.0
  timeout: 1m30s
  build: {strategy: Shared}
  env:
  - name: A
    value: "1"
  - {name: B, valueFrom: {secretKeyRef: {name: b, key: c}}}
  resources: {limits: {cpu: 1, memory: 64Mi}}
  concurrency: null
  function: package p
`

func TestCheckFields(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"Complete":   {"", "", "<nil>"},
		"Version":    {"v1beta1", "v1", "f.yaml:1:13: apiVersion goless.io/v1 is not known, write goless.io/v1beta1"},
		"Name":       {"a-1", "My_Func", "f.yaml:3:18: metadata.name must be at most 63 lower case letters, digits and -, and begin and end with a letter or a digit"},
		"NameLong":   {"a-1", strings.Repeat("a", 64), "f.yaml:3:18: metadata.name must be at most 63 lower case letters, digits and -, and begin and end with a letter or a digit"},
		"NameBool":   {"a-1", "on", `f.yaml:3:18: metadata.name must be a string, write "on"`},
		"NameQuoted": {"a-1", `"on"`, "<nil>"},
		"Label":      {"{any: thing}", "{any: yes}", "f.yaml:3:37: metadata.labels.any must be of type string, and is yes"},
		"Annotation": {"labels: {any: thing}", "annotations: {any: 1}", "f.yaml:3:42: metadata.annotations.any must be of type string, and is 1"},
		"Labels":     {"{any: thing}", "[any]", "f.yaml:3:31: metadata.labels must be of type object, and is an array"},
		"Metadata":   {"labels:", "label:", "f.yaml:3:23: there is no field metadata.label, there are: annotations, "},
		"LabelValue": {"{any: thing}", "{any: a thing}", "f.yaml:3:37: metadata.labels.any must match ^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"},
		"NoLabel":    {"{any: thing}", `{any: ""}`, "<nil>"},
		"Spaces":     {"labels: {any: thing}", "namespace: My_Shop", "f.yaml:3:34: metadata.namespace must match ^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"},
		"Namespace":  {"labels: {any: thing}", "namespace: 1", "f.yaml:3:34: metadata.namespace must be of type string, and is 1"},
		"Digit":      {"a-1", "1-a", "<nil>"},
		"Type":       {"0x1F90", "eighty", `f.yaml:6:15: spec.serverPort must be of type integer, and is "eighty"`},
		"Fraction":   {"2.0", "2.5", "f.yaml:7:13: spec.replicas must be of type integer, and is 2.5"},
		"Minimum":    {"2.0", "-1", "f.yaml:7:13: spec.replicas must be at least 0"},
		"Maximum":    {"0x1F90", "70000", "f.yaml:6:15: spec.serverPort must be at most 65535"},
		"Object":     {"{strategy: Shared}", "[]", "f.yaml:9:10: spec.build must be of type object, and is an array"},
		"Enum":       {"Shared", "shared", "f.yaml:9:21: spec.build.strategy must be one of: InPod, Shared"},
		"Pattern":    {"1m30s", "soon", "f.yaml:8:12: spec.timeout: timeout must be a time such as 30s or 1m30s"},
		"Rule":       {"web", "Web", "f.yaml:5:12: spec.service: service must be the name of a Service: lower-case letters, digits and '-', beginning with a letter and not ending with '-'"},
		"Item":       {`"1"`, "on", "f.yaml:12:12: spec.env[0].value must be of type string, and is on"},
		"Missing":    {"name: b, ", "", "f.yaml:13:41: spec.env[1].valueFrom.secretKeyRef.name is missing"},
		"Quantity":   {"64Mi", "lots", `f.yaml:14:40: spec.resources.limits.memory must be a quantity such as 100m or 128Mi, and is "lots"`},
		"Amount":     {"64Mi", "0.5", "f.yaml:14:40: spec.resources.limits.memory must be a quantity such as 100m or 128Mi, and is 0.5"},
		"Amounts":    {"64Mi", "[]", "f.yaml:14:40: spec.resources.limits.memory must be a quantity such as 100m or 128Mi, and is an array"},
		"Empty":      {"package p", `""`, "f.yaml:16:13: spec.function must have at least 1 characters"},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(complete, c.old) {
				t.Fatalf("there is no %q", c.old)
			}
			if got := checkFields(t, strings.Replace(complete, c.old, c.new, 1)); !strings.HasPrefix(got, c.want) {
				t.Errorf("CheckFields: %s\nwant %s", got, c.want)
			}
		})
	}
}

func checkFields(t *testing.T, yaml string) string {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("f.yaml", []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	functions, _, err := input.Read("f.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(functions[0].CheckFields())
}

func TestCheckFieldsOfMany(t *testing.T) {
	const several = `apiVersion: goless.io/v1beta1
kind: Function
metadata: {name: 1-a}
spec:
  function: package p
  replica: 3
  serverport: 1
`
	const known = "appProtocol, build, "
	lines := strings.Split(checkFields(t, several), "\n")
	for i, want := range []string{
		"f.yaml:3:18: metadata.name begins with a digit, which the name of a Service may not: set spec.service",
		"f.yaml:6:3: there is no field spec.replica, there are: " + known,
		"f.yaml:7:3: there is no field spec.serverport, there are: " + known,
	} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], want) {
			t.Errorf("line %d of %q is not %q", i, lines, want)
		}
	}
}

// TestCheckFieldsOfExamples has what the API server accepts.
func TestCheckFieldsOfExamples(t *testing.T) {
	files, err := filepath.Glob("../../../examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no examples: %v", err)
	}
	for _, file := range files {
		functions, _, err := input.Read(file, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, function := range functions {
			if err := function.CheckFields(); err != nil {
				t.Error(err)
			}
		}
	}
}
