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

// encodedPrefix begins the name, in an archive, of a file whose content is there as base64,
// because it is no text. It is not part of the name anywhere else, and no other file can have
// a name that begins like that.
const encodedPrefix = "base64:"

// byteOrderMark is what some editors put before everything else.
var byteOrderMark = []byte("\uFEFF")

// File is one file of a source.
type File struct {
	// Name is the path in the archive, with slashes. A source of one file has
	// the name that it was given.
	Name string

	// Line is the line of the source at which Data begins, from 1.
	Line int

	// Data is the content. The last file of an archive ends with a line break,
	// even where the source does not.
	Data []byte

	// Encoded means that the source has Data as base64.
	Encoded bool
}

// IsArchive reports whether src is a txtar archive rather than one Go file. The
// lines that begin the files of an archive may be in a string or a comment of a
// Go file, so what is Go as a whole is Go.
func IsArchive(src []byte) bool {
	if !hasMarker(src) {
		return false
	}
	if _, message := tooDeep(src); message != "" {
		return true // the parser should not read it, and refuses the Go files of it one by one
	}
	_, err := parser.ParseFile(token.NewFileSet(), "", src, parser.SkipObjectResolution)
	return err != nil
}

// Split returns the files of a source without judging them. One that is no
// archive is a single file, called filename. In an archive, text before the
// first marker is the file handler.go, as in the Go Playground, unless it is
// blank, or a comment: there are Go files, and no line of it begins like Go.
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

// beginsLikeGo matches text with a line that begins like one at the top level of a Go file.
var beginsLikeGo = regexp.MustCompile(`(?m)^(package|import|func|type|var|const)\b`)

// isComment reports whether the text before the first marker of an archive is for its readers.
func isComment(archive *txtar.Archive) bool {
	hasGo := slices.ContainsFunc(archive.Files, func(f txtar.File) bool { return path.Ext(f.Name) == ".go" })
	return hasGo && !beginsLikeGo.Match(archive.Comment)
}

// decoded returns f, a file as it is in an archive, with the name and the content that are
// meant. If they are not right, f stays as it is, with a name that is refused.
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

// checkEncoded returns what is wrong with a file whose name has still the encodedPrefix.
func checkEncoded(f *file) string {
	name := strings.TrimPrefix(f.Name, encodedPrefix)
	switch {
	case mustBeText(name):
		return fmt.Sprintf("%s must be text, write it as it is and without %s", name, encodedPrefix)
	case f.Encoded:
		return fmt.Sprintf("the name begins with %s twice, write it once", encodedPrefix)
	}
	_, err := base64.StdEncoding.DecodeString(string(f.Data))
	return fmt.Sprintf("%s is not base64, encode it with: base64 FILE (%v)", name, err)
}

// mustBeText reports whether a file is one that Goless and the go command read.
func mustBeText(name string) bool {
	return path.Ext(name) == ".go" || name == "go.mod" || name == "go.sum" || name == VendorIndex
}

// Format returns the archive that Split makes files of again, but for a line break at the end
// of texts that have none. What is no text is in it as base64, and so is a text with a line
// that would begin another file.
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

// encoded returns lines of base64.
func encoded(data []byte) []byte {
	const length = 76 // of a line, as the command base64 writes it
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

// hasMarker reports whether a line of src begins a file of an archive.
func hasMarker(src []byte) bool {
	src = bytes.TrimPrefix(src, byteOrderMark)
	if !bytes.HasPrefix(src, []byte("-- ")) && !bytes.Contains(src, []byte("\n-- ")) {
		return false
	}
	return len(txtar.Parse(src).Files) > 0
}
