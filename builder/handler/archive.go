package handler

import (
	"bytes"
	"go/parser"
	"go/token"

	"golang.org/x/tools/txtar"
)

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
}

// IsArchive reports whether src is a txtar archive rather than one Go file. The
// lines that begin the files of an archive may be in a string or a comment of a
// Go file, so what is Go as a whole is Go.
func IsArchive(src []byte) bool {
	if !hasMarker(src) {
		return false
	}
	_, err := parser.ParseFile(token.NewFileSet(), "", src, parser.SkipObjectResolution)
	return err != nil
}

// Split returns the files of a source without judging them. One that is no
// archive is a single file, called filename. In an archive, text before the
// first marker is the file handler.go, as in the Go Playground, unless it is
// blank.
func Split(filename string, src []byte) []File {
	if !IsArchive(src) {
		return []File{{Name: filename, Line: 1, Data: src}}
	}
	return splitArchive(src)
}

func splitArchive(src []byte) []File {
	archive := txtar.Parse(bytes.TrimPrefix(src, byteOrderMark))
	var files []File
	if len(bytes.TrimSpace(archive.Comment)) > 0 {
		files = append(files, File{Name: Filename, Line: 1, Data: archive.Comment})
	}
	line := 1 + bytes.Count(archive.Comment, []byte("\n"))
	for _, f := range archive.Files {
		line++ // the marker
		files = append(files, File{Name: f.Name, Line: line, Data: f.Data})
		line += bytes.Count(f.Data, []byte("\n"))
	}
	return files
}

// hasMarker reports whether a line of src begins a file of an archive.
func hasMarker(src []byte) bool {
	src = bytes.TrimPrefix(src, byteOrderMark)
	if !bytes.HasPrefix(src, []byte("-- ")) && !bytes.Contains(src, []byte("\n-- ")) {
		return false
	}
	return len(txtar.Parse(src).Files) > 0
}
