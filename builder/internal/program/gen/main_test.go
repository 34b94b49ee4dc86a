package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

func TestArchiveIsCurrent(t *testing.T) {
	want, err := pack(os.DirFS(filepath.Join("..", runtimeDir)))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join("..", archiveFile))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("%s is not what is in the module goless.io/runtime, run: make generate", archiveFile)
	}
}

func TestPack(t *testing.T) {
	file := func(data string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(data)} }
	archive, err := pack(fstest.MapFS{
		"go.mod":                   file("module m\n"),
		"go.sum":                   file(""),
		"a.go":                     file("package m\n"),
		"a_test.go":                file("package m\n"),
		"README.md":                file("read\n"),
		"internal/b/b.go":          file("package b\n"),
		"internal/b/testdata/x.go": file("package x\n"),
		"cmd/launch/main.go":       file("package main\n"),
	})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range txtar.Parse(archive).Files {
		names = append(names, f.Name)
	}
	if diff := cmp.Diff([]string{"a.go", "go.mod", "go.sum", "internal/b/b.go"}, names); diff != "" {
		t.Errorf("files: -want +got\n%s", diff)
	}
}

func TestPackRefusesWhatTheFormatChanges(t *testing.T) {
	for name, data := range map[string]string{
		"NoNewline": "package m",
		"Marker":    "package m\n/*\n-- b.go --\n*/\n",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := pack(fstest.MapFS{"a.go": {Data: []byte(data)}}); err == nil {
				t.Error("pack accepts the file")
			}
		})
	}
}
