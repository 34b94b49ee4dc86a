package settings_test

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"goless.io/operator/internal/settings"
)

const head = "apiVersion: config.goless.io/v1beta1\nkind: OperatorConfiguration\n"

// installed returns the configuration file in deploy/.
func installed(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "25-config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var object corev1.ConfigMap
	if err := yaml.UnmarshalStrict(text, &object); err != nil {
		t.Fatal(err)
	}
	return object.Data["config.yaml"]
}

// The installed file does not change any default.
func TestInstalledFileHasDefaults(t *testing.T) {
	got, err := settings.Parse([]byte(installed(t)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(settings.Settings{APIVersion: settings.APIVersion, Kind: settings.Kind}, got); diff != "" {
		t.Error(diff)
	}
}

// With its commented examples enabled, the installed file is valid and sets every field.
func TestInstalledFileShowsEverySetting(t *testing.T) {
	examples := regexp.MustCompile(`(?m)^#( *(?:- *)?[a-zA-Z]+:.*)$`).ReplaceAllString(installed(t), "$1")
	got, err := settings.Parse([]byte(examples))
	if err != nil {
		t.Fatalf("%v\n%s", err, examples)
	}
	unset(t, "", reflect.ValueOf(got))
	if limit := got.Build.Resources.Limits.Memory.String(); limit != "768Mi" || got.Build.MaxTimeout.Duration != 10*time.Minute {
		t.Errorf("build is %+v", got.Build)
	}
}

// unset reports each field without a value, except for the CPU limit of functions, which has no
// default.
func unset(t *testing.T, path string, v reflect.Value) {
	t.Helper()
	if v.Kind() == reflect.Struct && strings.HasPrefix(v.Type().PkgPath(), "goless.io/") {
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.Tag.Get("json") != "-" {
				unset(t, path+"."+field.Name, v.Field(i))
			}
		}
		return
	}
	if v.IsZero() && path != ".Function.Resources.Limits.CPU" {
		t.Errorf("deploy/25-config.yaml does not set %s", path)
	}
}

func TestInvalidFiles(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"Empty":          {"", "unexpected kind nothing of apiVersion nothing, want kind OperatorConfiguration"},
		"OtherVersion":   {"apiVersion: config.goless.io/v2\nkind: OperatorConfiguration\n", "want kind OperatorConfiguration of apiVersion config.goless.io/v1beta1"},
		"TypingMistake":  {head + "rolout: Always\n", `unknown field "rolout"`},
		"Twice":          {head + "rollout: Always\nrollout: OnChange\n", "already set"},
		"NotYAML":        {head + "\t", "yaml"},
		"Rollout":        {head + "rollout: Never\n", `rollout: Unsupported value: "Never": supported values: "OnChange", "Always"`},
		"Admission":      {head + "admission: Maybe\n", `admission: Unsupported value: "Maybe": supported values: "Enabled", "Disabled"`},
		"PodUser":        {head + "podUser: 1000\n", "podUser"},
		"Namespace":      {head + "namespaces: [a_b]\n", `namespaces[0]: Invalid value: "a_b": a lowercase RFC 1123 label must`},
		"Prefix":         {head + "podMetadataPrefixes: [example.com]\n", `podMetadataPrefixes[0]: Invalid value: "example.com": must be a domain with a slash`},
		"TheirPrefix":    {head + "podMetadataPrefixes: [container.apparmor.security.beta.kubernetes.io/]\n", "belongs to kubernetes.io"},
		"OurPrefix":      {head + "podMetadataPrefixes: [goless.io/]\n", "belongs to goless.io"},
		"NoTime":         {head + "endpointPropagation: -1s\n", "endpointPropagation: Invalid value: \"-1s\": must not be negative"},
		"LongTime":       {head + "endpointPropagation: 1h\n", "endpointPropagation: Invalid value: \"1h0m0s\": must be at most 5m0s"},
		"LostNode":       {head + "lostNodeTimeout: -1s\n", `lostNodeTimeout: Invalid value: "-1s": must not be negative`},
		"Replicas":       {head + "function: {maxReplicas: -1}\n", `function.maxReplicas: Invalid value: "-1": must not be negative`},
		"Amount":         {head + "function: {maxResources: {memory: much}}\n", "quantities must match"},
		"Negative":       {head + "build: {resources: {limits: {cpu: -1}}}\n", `build.resources.limits.cpu: Invalid value: "-1": must be more than 0`},
		"NoLimit":        {head + "build: {maxResources: {memory: 0}}\n", `build.maxResources.memory: Invalid value: "0": must be more than 0`},
		"NegativeAmount": {head + "function: {resources: {requests: {cpu: -1}}}\n", `function.resources.requests.cpu: Invalid value: "-1": must not be negative`},
		"Resource":       {head + "build: {resources: {limits: {gpu: 1}}}\n", `unknown field "gpu"`},
		"Timeout":        {head + "build: {timeout: 60}\n", "build.timeout"},
		"Strategy":       {head + "build: {strategy: Fast}\n", `build.strategy: Unsupported value: "Fast": supported values: "InPod", "Shared"`},
		"LowTimeout":     {head + "build: {maxTimeout: -1s}\n", `build.maxTimeout: Invalid value: "-1s": must not be negative`},
		"Several":        {head + "rollout: Never\npodUser: Root\n", `[rollout: Unsupported value: "Never": supported values: "OnChange", "Always", podUser: `},
		"FileProxy":      {head + "build: {modules: {goProxy: \"https://proxy.example.com,file:///modules\"}}\n", `build.modules.goProxy: Invalid value: "https://proxy.example.com,file:///modules": must not have a file: URL`},
		"FileSums":       {head + "build: {modules: {goSumDB: sum.example+key file:///sums}}\n", `build.modules.goSumDB: Invalid value: "sum.example+key file:///sums": must not have a file: URL`},
		"HalfAKey":       {head + "build: {modules: {netrc: {name: a}}}\n", "build.modules.netrc: Required value: name and key are required"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := settings.Parse([]byte(test.text))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	if _, err := settings.Load("nowhere.yaml"); err == nil || !strings.Contains(err.Error(), "reading the settings") {
		t.Errorf("missing file: %v", err)
	}
	if _, err := settings.Load(""); err != nil {
		t.Errorf("no file: %v", err)
	}
}

// An operator that watches some namespaces has no webhook unless the file enables it.
func TestAdmission(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, "admission: Enabled": true, "admission: Disabled": false,
		"namespaces: [a]": false, "namespaces: [a]\nadmission: Enabled": true,
	} {
		s, err := settings.Parse([]byte(head + text))
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Admits(); got != want {
			t.Errorf("%q: %t, want %t", text, got, want)
		}
	}
}
