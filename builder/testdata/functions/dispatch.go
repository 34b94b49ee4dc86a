package dispatch

import (
	"bufio"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"unicode"
)

type shape interface {
	area() float64
	fmt.Stringer
}

type (
	square    struct{ side float64 }
	rectangle struct{ width, height float64 }
	circle    struct{ radius float64 }
)

func (s square) area() float64    { return s.side * s.side }
func (r rectangle) area() float64 { return r.width * r.height }
func (c *circle) area() float64   { return 3.14159 * c.radius * c.radius }

func (s square) String() string    { return fmt.Sprintf("square of %g", s.side) }
func (r rectangle) String() string { return fmt.Sprintf("rectangle of %g by %g", r.width, r.height) }
func (c *circle) String() string   { return fmt.Sprintf("circle of %g", c.radius) }

type kind uint8

const (
	word kind = iota + 1
	numeral
	symbol
)

func classify(text string) kind {
	for _, r := range text {
		switch {
		case unicode.IsLetter(r):
			return word
		case unicode.IsDigit(r), r == '.':
			return numeral
		default:
			return symbol
		}
	}
	return symbol
}

func describe(value any) string {
	switch v := value.(type) {
	case nil:
		return "nothing"
	case *circle:
		return fmt.Sprintf("round, %.2f wide", 2*v.radius)
	case shape:
		return fmt.Sprintf("%v with an area of %.2f", v, v.area())
	case error:
		return v.Error()
	case []string:
		return strings.Join(v, ", ")
	case func() string:
		return v()
	}
	return reflect.TypeOf(value).String()
}

func parse(line string) (any, error) {
	var name string
	var a, b float64
	n, err := fmt.Sscan(line, &name, &a, &b)
	switch {
	case n < 2:
		return nil, fmt.Errorf("%q: %w", line, err)
	case name == "circle":
		return &circle{radius: a}, nil
	case name == "square":
		return square{a}, nil
	case name == "rectangle" && n == 3:
		return rectangle{width: a, height: b}, nil
	}
	return []string{name, fmt.Sprint(classify(name))}, nil
}

func Handler(w http.ResponseWriter, r *http.Request) {
	lines := bufio.NewScanner(r.Body)
	for number := 1; lines.Scan(); number++ {
		value, err := parse(lines.Text())
		if err != nil {
			value = err
		}
		fmt.Fprintf(w, "%d: %s\n", number, describe(value))
	}
	if err := lines.Err(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}
