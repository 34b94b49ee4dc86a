package schema_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"goless.io/builder/internal/manifest"
	"goless.io/builder/internal/source"
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
		"Version":    {"v1beta1", "v1", "f.yaml:1:13: unknown apiVersion goless.io/v1, want goless.io/v1beta1"},
		"Name":       {"a-1", "My_Func", "f.yaml:3:18: metadata.name must have at most 63 lower case letters, digits and -, and start and end with a letter or a digit"},
		"NameLong":   {"a-1", strings.Repeat("a", 64), "f.yaml:3:18: metadata.name must have at most 63 lower case letters, digits and -, and start and end with a letter or a digit"},
		"NameBool":   {"a-1", "on", `f.yaml:3:18: metadata.name must be a string; write "on"`},
		"NameQuoted": {"a-1", `"on"`, "<nil>"},
		"Label":      {"{any: thing}", "{any: yes}", "f.yaml:3:37: metadata.labels.any must be of type string, got yes"},
		"Annotation": {"labels: {any: thing}", "annotations: {any: 1}", "f.yaml:3:42: metadata.annotations.any must be of type string, got 1"},
		"Labels":     {"{any: thing}", "[any]", "f.yaml:3:31: metadata.labels must be of type object, got an array"},
		"Metadata":   {"labels:", "label:", "f.yaml:3:23: unknown field metadata.label, want one of: annotations, "},
		"LabelValue": {"{any: thing}", "{any: a thing}", "f.yaml:3:37: metadata.labels.any must match ^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"},
		"NoLabel":    {"{any: thing}", `{any: ""}`, "<nil>"},
		"Spaces":     {"labels: {any: thing}", "namespace: My_Shop", "f.yaml:3:34: metadata.namespace must match ^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"},
		"Namespace":  {"labels: {any: thing}", "namespace: 1", "f.yaml:3:34: metadata.namespace must be of type string, got 1"},
		"Digit":      {"a-1", "1-a", "<nil>"},
		"Type":       {"0x1F90", "eighty", `f.yaml:6:15: spec.serverPort must be of type integer, got "eighty"`},
		"Fraction":   {"2.0", "2.5", "f.yaml:7:13: spec.replicas must be of type integer, got 2.5"},
		"Minimum":    {"2.0", "-1", "f.yaml:7:13: spec.replicas must be at least 0"},
		"Maximum":    {"0x1F90", "70000", "f.yaml:6:15: spec.serverPort must be at most 65535"},
		"Object":     {"{strategy: Shared}", "[]", "f.yaml:9:10: spec.build must be of type object, got an array"},
		"Enum":       {"Shared", "shared", "f.yaml:9:21: spec.build.strategy must be one of: InPod, Shared"},
		"Pattern":    {"1m30s", "soon", "f.yaml:8:12: spec.timeout: timeout must be a time such as 30s or 1m30s"},
		"Rule":       {"web", "Web", "f.yaml:5:12: spec.service: service must be the name of a Service: lower-case letters, digits and '-', beginning with a letter and not ending with '-'"},
		"Item":       {`"1"`, "on", "f.yaml:12:12: spec.env[0].value must be of type string, got on"},
		"Missing":    {"name: b, ", "", "f.yaml:13:41: spec.env[1].valueFrom.secretKeyRef.name is missing"},
		"Quantity":   {"64Mi", "lots", `f.yaml:14:40: spec.resources.limits.memory must be a quantity such as 100m or 128Mi, got "lots"`},
		"Amount":     {"64Mi", "0.5", "f.yaml:14:40: spec.resources.limits.memory must be a quantity such as 100m or 128Mi, got 0.5"},
		"Amounts":    {"64Mi", "[]", "f.yaml:14:40: spec.resources.limits.memory must be a quantity such as 100m or 128Mi, got an array"},
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
	functions, _, err := manifest.Read("f.yaml", nil)
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
		"f.yaml:3:18: metadata.name starts with a digit, which is invalid for the name of a Service; set spec.service",
		"f.yaml:6:3: unknown field spec.replica, want one of: " + known,
		"f.yaml:7:3: unknown field spec.serverport, want one of: " + known,
	} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], want) {
			t.Errorf("line %d of %q is not %q", i, lines, want)
		}
	}
}

// TestCheckFieldsOfExamples checks objects that the API server accepts.
func TestCheckFieldsOfExamples(t *testing.T) {
	files, err := filepath.Glob("../../../examples/*.yaml")
	triggers, err2 := filepath.Glob("../../../examples/triggers/*[a-z]trigger.yaml")
	if err := errors.Join(err, err2); err != nil || len(files) == 0 || len(triggers) == 0 {
		t.Fatalf("there are no examples: %v", err)
	}
	for _, file := range slices.Concat(files, triggers) {
		functions, others, _, err := manifest.ReadAll(file, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, function := range functions {
			if err := function.CheckFields(); err != nil {
				t.Error(err)
			}
		}
		for _, object := range others {
			if err := object.CheckFields(); err != nil {
				t.Error(err)
			}
		}
	}
}

// objects are a trigger of each kind and a FunctionClass.
const objects = `apiVersion: goless.io/v1alpha1
kind: CronTrigger
metadata: {name: tick}
spec: {schedule: "@daily", functionRef: {name: a}, headers: {X-A: "1"}}
---
apiVersion: goless.io/v1alpha1
kind: HTTPTrigger
metadata: {name: web}
spec: {hostnames: [a.example.com], functionRef: {name: a}}
---
apiVersion: goless.io/v1alpha1
kind: NATSTrigger
metadata: {name: nats}
spec: {servers: ["nats://nats:4222"], subject: orders, functionRef: {name: a}, scale: {max: 3}}
---
apiVersion: goless.io/v1alpha1
kind: KafkaTrigger
metadata: {name: kafka}
spec: {brokers: ["kafka:9092"], topic: orders, functionRef: {name: a}}
---
apiVersion: goless.io/v1beta1
kind: FunctionClass
metadata: {name: gold}
spec: {labels: {team: a}, topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]}
`

func TestCheckObjects(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"Complete":  {"", "", ""},
		"Version":   {"v1alpha1\nkind: CronTrigger", "v1\nkind: CronTrigger", "f.yaml:1:13: unknown apiVersion goless.io/v1, want goless.io/v1alpha1"},
		"Kind":      {"KafkaTrigger", "KafkaTriger", "f.yaml:17:7: unknown kind KafkaTriger, goless.io has: CronTrigger, FunctionClass, HTTPTrigger, KafkaTrigger, NATSTrigger, Function"},
		"NoKind":    {"kind: KafkaTrigger\n", "", "f.yaml:16:1: kind is missing"},
		"NoName":    {"metadata: {name: tick}", "metadata: {}", "f.yaml:1:1: metadata.name is missing"},
		"Metadata":  {"name: tick", "name: tick, finalizers: [a], ownerReferences: [{name: a}], managedFields: [{fieldsV1: {}}]", ""},
		"Name":      {"name: tick", "name: Tick", "f.yaml:3:18: metadata.name must be a DNS label of at most 52 lower-case letters, digits and '-': it is the name of a CronJob"},
		"Field":     {"schedule", "shedule", "f.yaml:4:7: spec.schedule is missing\nf.yaml:4:8: unknown field spec.shedule, want one of: body, "},
		"Twice":     {"topic: orders", "topic: orders, topic: b", "f.yaml:19:48: duplicate topic, the first is in line 19; remove one"},
		"Type":      {"a.example.com]", "1]", "f.yaml:9:20: spec.hostnames[0] must be of type string, got 1"},
		"Rule":      {"[a.example.com], functionRef: {name: a}", "[a.example.com]", "f.yaml:9:7: spec: set either functionRef or backends"},
		"MinItems":  {`["nats://nats:4222"]`, "[]", "f.yaml:14:17: spec.servers must have at least 1 items"},
		"Scale":     {"{max: 3}", "{min: 3, max: 2}", "f.yaml:14:87: spec.scale: max must not be less than min"},
		"Header":    {"X-A:", "CE-A:", "f.yaml:4:61: spec.headers: headers must not contain CloudEvents headers (ce-*) or connection headers such as Host"},
		"Label":     {"team: a", "goless.io/team: a", "f.yaml:24:16: spec.labels: the prefixes goless.io/ and pod.goless.io/ are reserved"},
		"MaxValues": {"team: a", entries(33), "f.yaml:24:16: spec.labels must have at most 32 entries"},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(objects, c.old) {
				t.Fatalf("there is no %q", c.old)
			}
			if text := checkObjects(t, strings.Replace(objects, c.old, c.new, 1)); !strings.HasPrefix(text, c.want) || c.want == "" && text != "" {
				t.Errorf("CheckFields: %s\nwant %s", text, c.want)
			}
		})
	}
}

func checkObjects(t *testing.T, yaml string) string {
	t.Helper()
	functions, others, notes, err := manifest.ReadAll(source.Stdin, strings.NewReader(yaml))
	if err != nil || len(functions) != 0 || len(others) != 5 || len(notes) != 0 {
		t.Fatalf("ReadAll: %d Functions, %d others, %q, %v", len(functions), len(others), notes, err)
	}
	var got []string
	for _, object := range others {
		if err := object.CheckFields(); err != nil {
			got = append(got, strings.ReplaceAll(err.Error(), "<stdin>", "f.yaml"))
		}
	}
	return strings.Join(got, "\n")
}

// entries returns count entries of a mapping.
func entries(count int) string {
	var b strings.Builder
	for i := range count {
		fmt.Fprintf(&b, "a%d: b, ", i)
	}
	return b.String()
}

// TestReadLeavesObjectsOut checks that only ReadAll returns objects that are not Functions.
func TestReadLeavesObjectsOut(t *testing.T) {
	_, notes, err := manifest.Read(source.Stdin, strings.NewReader(objects))
	if _, ok := errors.AsType[*manifest.NoFunctionError](err); !ok || len(notes) != 5 {
		t.Errorf("Read: %q, %v", notes, err)
	}
}
