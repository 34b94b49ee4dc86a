package handler

import (
	"bytes"
	"fmt"
	"go/scanner"
	"go/token"
)

// maxNesting is how deep the syntax of a file may be. The parser calls itself for
// each level and takes more than a kilobyte of stack for it: the largest source
// could take 128 MiB.
const maxNesting = 1000

// maxKeywords is how many keywords a line may have. The parser takes each of them
// for the beginning of something deeper where the syntax is wrong, and it gives up
// after ten wrong lines.
const maxKeywords = 250

// A level is what is open between two brackets.
type level struct {
	prefixes int // of one operand: - of -x, *, chan, []
	chained  int // of one statement: labels and else branches
}

// tooDeep says what the parser should not be asked to read, and at which offset; the
// message is empty when there is nothing like that.
func tooDeep(src []byte) (offset int, message string) {
	file := token.NewFileSet().AddFile("", -1, len(src))
	var tokens scanner.Scanner
	tokens.Init(file, src, nil, 0) // the parser tells what is wrong
	levels, depth, last := []level{{}}, 0, token.ILLEGAL
	line := line{src: src}
	for {
		pos, tok, _ := tokens.Scan()
		offset = file.Offset(pos)
		line.see(offset, tok)
		here := &levels[len(levels)-1]
		depth -= here.prefixes + here.chained
		here.see(tok, last)
		depth += here.prefixes + here.chained
		switch tok {
		case token.EOF:
			return 0, ""
		case token.LPAREN, token.LBRACK, token.LBRACE:
			levels = append(levels, level{})
			depth++
		case token.RPAREN, token.RBRACK, token.RBRACE:
			if len(levels) > 1 {
				depth -= 1 + here.prefixes + here.chained
				levels = levels[:len(levels)-1]
			}
		}
		switch {
		case depth > maxNesting:
			return offset, fmt.Sprintf("nested deeper than %d levels, split it", maxNesting)
		case line.keywords > maxKeywords:
			return offset, fmt.Sprintf("more than %d keywords in one line, break it", maxKeywords)
		}
		last = tok
	}
}

// A line is the one that is being read.
type line struct {
	src           []byte
	end, keywords int
}

// see counts a token at an offset.
func (l *line) see(offset int, tok token.Token) {
	if offset > l.end {
		l.keywords, l.end = 0, len(l.src)
		if length := bytes.IndexByte(l.src[offset:], '\n'); length >= 0 {
			l.end = offset + length
		}
	}
	if tok.IsKeyword() || tok == token.ARROW {
		l.keywords++
	}
}

// see counts a token that is on the level; last is the one before it.
func (l *level) see(tok, last token.Token) {
	switch {
	case tok == token.SEMICOLON, tok == token.COMMA, tok == token.CASE, tok == token.DEFAULT:
		*l = level{}
	case tok == token.COLON, tok == token.ELSE:
		l.prefixes = 0
		l.chained++
	case tok == token.LBRACK, tok == token.MAP, tok == token.CHAN, tok == token.FUNC:
		l.prefixes++
	case tok == token.IDENT, tok.IsLiteral(), tok.IsOperator() && binary(last):
		if !bracket(tok) {
			l.prefixes = 0
		}
	case tok.IsOperator() && !bracket(tok):
		l.prefixes++
	}
}

// binary tells whether an operator after a token has an operand on its left.
func binary(last token.Token) bool {
	return last.IsLiteral() || last == token.RPAREN || last == token.RBRACK || last == token.RBRACE
}

func bracket(tok token.Token) bool {
	switch tok {
	case token.LPAREN, token.LBRACK, token.LBRACE, token.RPAREN, token.RBRACK, token.RBRACE:
		return true
	}
	return false
}
