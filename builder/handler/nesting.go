package handler

import (
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

// A level is an open bracket.
type level struct {
	outside   int // the depth around it
	statement int // the depth at which each statement, or element of a list, in it begins
}

// tooDeep says what the parser should not be asked to read, and at which offset; the
// message is empty when there is nothing like that. It may count more than the parser does,
// and never less.
func tooDeep(src []byte) (offset int, message string) {
	file := token.NewFileSet().AddFile("", -1, len(src))
	var tokens scanner.Scanner
	tokens.Init(file, src, nil, 0) // the parser tells what is wrong
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
		case tok == token.ELSE: // the condition that follows may have a statement before it
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
			return offset, fmt.Sprintf("nested deeper than %d levels, split it", maxNesting)
		case keywords > maxKeywords:
			return offset, fmt.Sprintf("more than %d keywords in one line, break it", maxKeywords)
		}
		last = tok
	}
}

// opensOperand reports whether the parser calls itself for what follows a token: an operand
// after a prefix as in -x and *T, the type of an element or a result, or what has a label.
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
