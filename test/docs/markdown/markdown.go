// Package markdown parses the pages of this repository: headings, prose and code blocks. It
// supports only the Markdown that they use.
package markdown

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
)

// A Page is a Markdown file.
type Page struct {
	Path string // from the root of the repository

	// Prose contains its lines. Those of code blocks are empty.
	Prose []string

	Blocks []Block

	// Indented reports whether the page has an indented code block, whose language is unknown.
	Indented bool
}

// A Block is a fenced code block. Its info string contains the language, and the file name if
// readers save it: ```yaml hello.yaml
type Block struct {
	Language, File, Text string
	Line                 int // of what is in it, from 1
}

// A Heading is a heading with its level: 1 for #.
type Heading struct {
	Level int
	Text  string
}

// Pages returns all pages below root, which is the root of the repository.
func Pages(root string) ([]Page, error) {
	var all []Page
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == "kodata" || name == "dist" || len(name) > 1 && name[0] == '.'):
			return fs.SkipDir
		case !entry.IsDir() && filepath.Ext(name) == ".md":
			page, err := Read(root, path)
			all = append(all, page)
			return err
		}
		return nil
	})
	return all, err
}

// Read reads the page at a path below root. An unclosed block is an error.
func Read(root, path string) (Page, error) {
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return Page{}, err
	}
	p, fenced := Page{Path: path}, false
	for i, line := range strings.Split(string(text), "\n") {
		info, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && !fenced:
			language, file, _ := strings.Cut(info, " ")
			p.Blocks = append(p.Blocks, Block{Language: language, File: file, Line: i + 2})
		case fenced && !fence:
			p.Blocks[len(p.Blocks)-1].Text += line + "\n"
		}
		if fence {
			fenced = !fenced
		}
		indented := !fenced && strings.HasPrefix(line, "    ")
		p.Indented = p.Indented || indented
		if fence || fenced || indented {
			line = ""
		}
		p.Prose = append(p.Prose, line)
	}
	if fenced {
		return Page{}, fmt.Errorf("%s: a code block does not end", path)
	}
	return p, nil
}

var headingLine = regexp.MustCompile(`^(#+) (.+)$`)

// Headings returns the headings of the page, in order.
func (p Page) Headings() (all []Heading) {
	for _, line := range p.Prose {
		if match := headingLine.FindStringSubmatch(line); match != nil {
			all = append(all, Heading{len(match[1]), match[2]})
		}
	}
	return all
}

// Sections returns the texts of the headings of a level.
func (p Page) Sections(level int) (all []string) {
	for _, h := range p.Headings() {
		if h.Level == level {
			all = append(all, h.Text)
		}
	}
	return all
}

// Anchor returns the fragment of a link to the heading.
func (h Heading) Anchor() string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, h.Text)
}
