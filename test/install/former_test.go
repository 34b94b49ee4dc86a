package install

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"goless.io/test/docs/markdown"
)

const root = "../.."

// A formerRelease is the latest published release in CHANGELOG.md.
type formerRelease struct {
	version, commit string

	// upgrade contains the commands in CHANGELOG.md that delete the objects of the release that
	// no longer exist.
	upgrade []string
}

// releaseSection matches the heading of a published release.
var releaseSection = regexp.MustCompile(`(?m)^## \[([0-9.]+)\].*\n\nCommit: ([0-9a-f]{40})$`)

func lastRelease() (*formerRelease, error) {
	page, err := markdown.Read(root, "CHANGELOG.md")
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return nil, err
	}
	match := releaseSection.FindSubmatchIndex(text)
	if match == nil {
		return nil, fmt.Errorf("CHANGELOG.md has no release with its commit: a section begins with ## [VERSION], and then has a line Commit: HASH")
	}
	r := &formerRelease{version: string(text[match[2]:match[3]]), commit: string(text[match[4]:match[5]])}
	line := strings.Count(string(text[:match[0]]), "\n")
	for _, b := range page.Blocks {
		if b.Language == "sh" && b.Line < line {
			r.upgrade = append(r.upgrade, b.Text)
		}
	}
	if err := exec.Command("git", "-C", root, "cat-file", "-e", r.commit+"^{commit}").Run(); err != nil {
		return nil, fmt.Errorf("this clone has no commit %s, of which CHANGELOG.md says that %s was made: if it is a shallow one, run git fetch --unshallow", r.commit, r.version)
	}
	return r, nil
}

// checkOut writes the files of the release to a directory.
func (r *formerRelease) checkOut(t *testing.T, dir string) {
	t.Helper()
	archive := filepath.Join(t.TempDir(), "commit.tar")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	command(t, root, nil, "git", "archive", "--output="+archive, r.commit)
	command(t, dir, nil, "tar", "--extract", "--file="+archive)
}

func command(t *testing.T, dir string, env []string, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s in %s: %v\n%s", cmd, dir, err, out)
	}
}

// former checks out the last release. It skips the test if its commit is not available.
func former(t *testing.T) (release *formerRelease, deploy string) {
	t.Helper()
	release, err := lastRelease()
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	release.checkOut(t, dir)
	return release, filepath.Join(dir, "deploy")
}

type object = map[string]any

// objects returns those of deploy/ by KIND/NAME.
func objects(t *testing.T, deploy string) map[string]object {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(deploy, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("unexpected files in %s: %q: %v", deploy, files, err)
	}
	all := map[string]object{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq("\n"+string(text), "\n---\n") {
			var o object
			if err := yaml.Unmarshal([]byte(document), &o); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if metadata, ok := o["metadata"].(object); ok {
				all[fmt.Sprintf("%s/%s", o["kind"], metadata["name"])] = o
			}
		}
	}
	return all
}

// kubectl apply does not delete objects that are no longer in the files. CHANGELOG.md describes
// how to delete them.
func TestUpgradeDeletesWhatIsGone(t *testing.T) {
	release, deploy := former(t)
	now, told := objects(t, filepath.Join(root, "deploy")), strings.Fields(strings.Join(release.upgrade, "\n"))
	for name := range objects(t, deploy) {
		if now[name] == nil && !slices.Contains(told, strings.ToLower(name)) {
			t.Errorf("%s of version %s no longer exists; add a block of sh to CHANGELOG.md, before the section of that version, which deletes %s", name, release.version, strings.ToLower(name))
		}
	}
}

// Functions and triggers of the last release are still valid and have the same meaning: no
// field was removed, became required, or has another type or default.
func TestFieldsStay(t *testing.T) {
	_, deploy := former(t)
	now := objects(t, filepath.Join(root, "deploy"))
	for name, before := range objects(t, deploy) {
		if !strings.HasPrefix(name, "CustomResourceDefinition/") {
			continue
		}
		after := versions(now[name])
		for version, schema := range versions(before) {
			if !strings.Contains(version, "alpha") { // alpha versions have no compatibility guarantee
				for _, difference := range incompatible(version, schema, after[version]) {
					t.Errorf("%s: %s", name, difference)
				}
			}
		}
	}
}

// versions returns the schemas of a CustomResourceDefinition by version.
func versions(crd object) map[string]object {
	all := map[string]object{}
	spec, _ := crd["spec"].(object)
	list, _ := spec["versions"].([]any)
	for _, item := range list {
		version := item.(object)
		all[version["name"].(string)] = version["schema"].(object)["openAPIV3Schema"].(object)
	}
	return all
}

// incompatible returns the incompatible changes of a schema.
func incompatible(path string, before, after object) (all []string) {
	if after == nil {
		return []string{path + " is gone"}
	}
	for _, key := range []string{"type", "default", "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-int-or-string"} {
		if was, is := fmt.Sprint(before[key]), fmt.Sprint(after[key]); was != is {
			all = append(all, fmt.Sprintf("%s has the %s %s, and had %s", path, key, is, was))
		}
	}
	was, _ := before["required"].([]any)
	is, _ := after["required"].([]any)
	for _, field := range is {
		if !slices.Contains(was, field) {
			all = append(all, fmt.Sprintf("%s.%s is required", path, field))
		}
	}
	fieldsBefore, _ := before["properties"].(object)
	fieldsAfter, _ := after["properties"].(object)
	for name, field := range fieldsBefore {
		now, _ := fieldsAfter[name].(object)
		all = append(all, incompatible(path+"."+name, field.(object), now)...)
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if item, ok := before[key].(object); ok {
			now, _ := after[key].(object)
			all = append(all, incompatible(path+"."+key, item, now)...)
		}
	}
	return all
}

// The comparison of schemas detects incompatible changes.
func TestIncompatible(t *testing.T) {
	const before = `{type: object, properties: {a: {type: string, default: x}, b: {type: array, items: {type: object, properties: {c: {type: string}}}}}}`
	for after, want := range map[string]string{
		`{type: object, properties: {a: {type: string, default: x}, b: {type: array, items: {type: object, properties: {c: {type: string}}}}, d: {type: string}}}`: "",
		`{type: object, properties: {a: {type: string, default: z}, b: {type: array, items: {type: object, properties: {c: {type: string}}}}}}`:                    "v1.a has the default z, and had x",
		`{type: object, properties: {a: {type: string, default: x}, b: {type: array, items: {type: object, properties: {}}}}}`:                                     "v1.b.items.c is gone",
		`{type: object, required: [a], properties: {a: {type: string, default: x}, b: {type: array, items: {type: object, properties: {c: {type: string}}}}}}`:     "v1.a is required",
	} {
		var was, is object
		if err := yaml.Unmarshal([]byte(before), &was); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal([]byte(after), &is); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(incompatible("v1", was, is), "; "); got != want {
			t.Errorf("%s: got %q, want %q", after, got, want)
		}
	}
}
