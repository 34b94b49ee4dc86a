package handler

import (
	"fmt"
	"go/scanner"
	"go/token"
)

// maxNesting is the maximum depth of the syntax of a file. The parser recurses at each level and
// uses more than a kilobyte of stack for it: without this limit, the largest source could use 128
// MiB.
const maxNesting = 1000

// maxKeywords is the maximum number of keywords in a line. In invalid syntax, the parser may
// recurse at each keyword. It gives up after ten lines with errors.
const maxKeywords = 250

// level is an open bracket.
type level struct {
	outside   int // depth outside of the bracket
	statement int // depth at which each statement or list element inside begins
}

// tooDeep returns a message and its offset if the parser must not read src, or else an empty
// message. It may overestimate the depth of recursion of the parser, but never underestimates it.
func tooDeep(src []byte) (offset int, message string) {
	file := token.NewFileSet().AddFile("", -1, len(src))
	var tokens scanner.Scanner
	tokens.Init(file, src, nil, 0) // the parser reports errors
	levels := []level{{}}
	depth, line, keywords, last := 0, 0, 0, token.ILLEGAL
	for {
		pos, tok, _ := tokens.Scan()
		offset = file.Offset(pos)
		here := &levels[len(levels)-1]
		switch {
		case tok == token.EOF:
			return 0, ""
		case tok == token.SEMICOLON, tok == token.COMMA, tok == token.CASE, tok == token.DEFAULT:
			depth = here.statement
		case tok == token.ELSE: // the condition that follows may begin with a statement
			here.statement++
			depth++
		case opensOperand(tok, last):
			depth++
		}
		switch tok {
		case token.LPAREN, token.LBRACK, token.LBRACE:
			levels = append(levels, level{outside: depth, statement: depth + 1})
			depth++
		case token.RPAREN, token.RBRACK, token.RBRACE:
			if len(levels) > 1 {
				depth = here.outside
				levels = levels[:len(levels)-1]
			}
		}
		if at := file.Line(pos); at != line {
			line, keywords = at, 0
		}
		if tok.IsKeyword() || tok == token.ARROW {
			keywords++
		}
		switch {
		case depth > maxNesting:
			return offset, fmt.Sprintf("nested deeper than %d levels; split it", maxNesting)
		case keywords > maxKeywords:
			return offset, fmt.Sprintf("more than %d keywords in one line; break it", maxKeywords)
		}
		last = tok
	}
}

// opensOperand reports whether the parser recurses after a token: for an operand after a prefix as
// in -x and *T, for the type of an element or a result, or for a labeled statement.
func opensOperand(tok, last token.Token) bool {
	switch tok {
	case token.LBRACK, token.MAP, token.CHAN, token.FUNC, token.COLON:
		return true
	case token.LPAREN, token.LBRACE, token.RPAREN, token.RBRACK, token.RBRACE:
		return false
	}
	hasOperand := last.IsLiteral() || last == token.RPAREN || last == token.RBRACK || last == token.RBRACE
	return tok.IsOperator() && !hasOperand
}
