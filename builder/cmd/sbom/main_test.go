package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// bill runs the command and returns the purls of all packages in the SBOM.
func bill(t *testing.T, args ...string) []string {
	t.Helper()
	var out bytes.Buffer
	if err := run(args, &out); err != nil {
		t.Fatal(err)
	}
	var document struct {
		Packages []struct {
			ID   string `json:"SPDXID"`
			Refs []struct {
				Locator string `json:"referenceLocator"`
			} `json:"externalRefs"`
		} `json:"packages"`
		Relationships []struct {
			Related string `json:"relatedSpdxElement"`
		} `json:"relationships"`
	}
	if err := json.Unmarshal(out.Bytes(), &document); err != nil {
		t.Fatal(err)
	}
	var purls, ids []string
	for _, p := range document.Packages {
		if slices.Contains(ids, p.ID) {
			t.Errorf("two packages are %s", p.ID)
		}
		ids = append(ids, p.ID)
		for _, ref := range p.Refs {
			purls = append(purls, ref.Locator)
		}
	}
	for _, r := range document.Relationships {
		if !slices.Contains(ids, r.Related) {
			t.Errorf("%s is related, and no package", r.Related)
		}
	}
	return purls
}

func has(t *testing.T, purls []string, want ...string) {
	t.Helper()
	for _, purl := range want {
		if !slices.ContainsFunc(purls, func(p string) bool { return strings.HasPrefix(p, purl) }) {
			t.Errorf("there is no %s in %q", purl, purls)
		}
	}
}

// TestProgram uses the program of this test.
func TestProgram(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1")
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	has(t, bill(t, "program", program), "pkg:golang/stdlib@"+strings.TrimPrefix(runtime.Version(), "go"), "pkg:golang/golang.org/x/tools@v")
}

const plan = `{"tracingModules": "\"0123456789abcdefpath\\tgoless.io/function\\nmod\\tgoless.io/function\\t(devel)\\t\\ndep\\tgo.uber.org/zap\\tv1.28.0\\th1:xyz=\\n0123456789abcdef\""}`

// ofKo contains the fields of an SBOM written by ko that the command reads.
const ofKo = `{
  "packages": [{"SPDXID": "SPDXRef-image"}, {"SPDXID": "SPDXRef-program"}],
  "relationships": [{"spdxElementId": "SPDXRef-image", "relationshipType": "CONTAINS", "relatedSpdxElement": "SPDXRef-program"}]}`

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestFunctions(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1")
	has(t, bill(t, "functions", write(t, plan)), "pkg:golang/stdlib@1.", "pkg:golang/go.uber.org/zap@v1.28.0")
}

func TestImage(t *testing.T) {
	own := "pkg:golang/stdlib@" + strings.TrimPrefix(runtime.Version(), "go")
	has(t, bill(t, "image", write(t, ofKo)), own)
	has(t, bill(t, "image", write(t, ofKo), write(t, plan)), own, "pkg:golang/go.uber.org/zap@v1.28.0")
}

func TestErrors(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "")
	for want, args := range map[string][]string{
		"usage":                      {"program"},
		"unknown command x":          {"x", "y"},
		"SOURCE_DATE_EPOCH must be":  {"functions", write(t, plan)},
		"the linker does not record": {"functions", write(t, "{}")},
		"no such file":               {"image", "nowhere"},
	} {
		if err := run(args, new(bytes.Buffer)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("sbom %q: %v, want %q", args, err, want)
		}
	}
}
