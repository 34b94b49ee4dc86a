package handler

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/tools/txtar"
)

// encodedPrefix is the prefix of the name, in an archive, of a binary file whose content is encoded
// as base64. Outside of the archive the name has no prefix. Other names must not begin with it.
const encodedPrefix = "base64:"

// byteOrderMark is the prefix that some editors write to files.
var byteOrderMark = []byte("\uFEFF")

// File is one file of a source.
type File struct {
	// Name is the slash-separated path in the archive. For a source of one file it is the given
	// file name.
	Name string

	// Line is the line of the source at which Data begins, counted from 1.
	Line int

	// Data is the content. The last file of an archive ends with a line break, even if the source
	// does not.
	Data []byte

	// Encoded means that Data is encoded as base64 in the source.
	Encoded bool
}

// IsArchive reports whether src is a txtar archive rather than one Go file. A string or comment of
// a Go file may contain a txtar marker, so a source that is valid Go is not an archive.
func IsArchive(src []byte) bool {
	if !hasMarker(src) {
		return false
	}
	if _, message := tooDeep(src); message != "" {
		return true // too deep for the parser; the Go files of the archive are rejected one by one
	}
	_, err := parser.ParseFile(token.NewFileSet(), "", src, parser.SkipObjectResolution)
	return err != nil
}

// Split returns the files of a source without validating them. A source that is not an archive is a
// single file with the name filename. In an archive, text before the first marker is the file
// handler.go, as in the Go Playground. It is ignored if it is blank, or if the archive contains Go
// files and no line of the text begins like a Go declaration.
func Split(filename string, src []byte) []File {
	if !IsArchive(src) {
		return []File{{Name: filename, Line: 1, Data: src}}
	}
	return splitArchive(src)
}

func splitArchive(src []byte) []File {
	archive := txtar.Parse(bytes.TrimPrefix(src, byteOrderMark))
	var files []File
	if len(bytes.TrimSpace(archive.Comment)) > 0 && !isComment(archive) {
		files = append(files, File{Name: Filename, Line: 1, Data: archive.Comment})
	}
	line := 1 + bytes.Count(archive.Comment, []byte("\n"))
	for _, f := range archive.Files {
		line++ // the marker
		files = append(files, decoded(File{Name: f.Name, Line: line, Data: f.Data}))
		line += bytes.Count(f.Data, []byte("\n"))
	}
	return files
}

// beginsLikeGo matches a line that begins like a declaration at the top level of a Go file.
var beginsLikeGo = regexp.MustCompile(`(?m)^(package|import|func|type|var|const)\b`)

// isComment reports whether the text before the first marker of an archive is a comment.
func isComment(archive *txtar.Archive) bool {
	hasGo := slices.ContainsFunc(archive.Files, func(f txtar.File) bool { return path.Ext(f.Name) == ".go" })
	return hasGo && !beginsLikeGo.Match(archive.Comment)
}

// decoded decodes f, a file of an archive whose name may have the encodedPrefix. If the name or the
// content is invalid, it returns f unchanged, whose name is then rejected.
func decoded(f File) File {
	name, encoded := strings.CutPrefix(f.Name, encodedPrefix)
	if !encoded || mustBeText(name) {
		return f
	}
	data, err := base64.StdEncoding.DecodeString(string(f.Data))
	if err != nil {
		return f
	}
	return File{Name: name, Line: f.Line, Data: data, Encoded: true}
}

// checkEncoded returns why a file is invalid whose name still has the encodedPrefix.
func checkEncoded(f *file) string {
	name := strings.TrimPrefix(f.Name, encodedPrefix)
	switch {
	case mustBeText(name):
		return fmt.Sprintf("%s must be text; write it without %s", name, encodedPrefix)
	case f.Encoded:
		return fmt.Sprintf("the name starts with %s twice; write it once", encodedPrefix)
	}
	_, err := base64.StdEncoding.DecodeString(string(f.Data))
	return fmt.Sprintf("%s is not valid base64; encode it with: base64 FILE (%v)", name, err)
}

// mustBeText reports whether Goless or the go command reads the file with this name.
func mustBeText(name string) bool {
	return path.Ext(name) == ".go" || name == "go.mod" || name == "go.sum" || name == VendorIndex
}

// Format returns an archive of files. Split returns the same files again, except that text ends
// with a line break. Binary files are encoded as base64, as is text that contains a txtar marker.
func Format(files []File) []byte {
	var archive txtar.Archive
	for _, f := range files {
		if !mustBeText(f.Name) && (!isText(f.Data) || hasMarker(f.Data)) {
			f.Name, f.Data = encodedPrefix+f.Name, encoded(f.Data)
		}
		archive.Files = append(archive.Files, txtar.File{Name: f.Name, Data: f.Data})
	}
	return txtar.Format(&archive)
}

// encoded returns data as lines of base64.
func encoded(data []byte) []byte {
	const length = 76 // of a line, as in the output of the command base64
	text := base64.StdEncoding.EncodeToString(data)
	var b bytes.Buffer
	for len(text) > 0 {
		n := min(length, len(text))
		b.WriteString(text[:n] + "\n")
		text = text[n:]
	}
	return b.Bytes()
}

func isText(data []byte) bool { return utf8.Valid(data) && bytes.IndexByte(data, 0) < 0 }

// hasMarker reports whether src contains a line that begins a file of an archive.
func hasMarker(src []byte) bool {
	src = bytes.TrimPrefix(src, byteOrderMark)
	if !bytes.HasPrefix(src, []byte("-- ")) && !bytes.Contains(src, []byte("\n-- ")) {
		return false
	}
	return len(txtar.Parse(src).Files) > 0
}
