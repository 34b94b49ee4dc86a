package calc

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
)

type operation = func(a, b float64) (float64, error)

type precedence struct {
	level int
	right bool
}

var operations = map[string]operation{
	"+": func(a, b float64) (float64, error) { return a + b, nil },
	"-": func(a, b float64) (float64, error) { return a - b, nil },
	"*": func(a, b float64) (float64, error) { return a * b, nil },
	"/": func(a, b float64) (float64, error) {
		if b == 0 {
			return math.NaN(), fmt.Errorf("%g is divided by zero", a)
		}
		return a / b, nil
	},
	"^": func(a, b float64) (float64, error) { return math.Pow(a, b), nil },
}

var order = map[string]precedence{"+": {level: 1}, "-": {level: 1}, "*": {2, false}, "/": {2, false}, "^": {3, true}}

func stack[T any]() (push func(T), pop func() (T, bool)) {
	var values []T
	push = func(v T) { values = append(values, v) }
	pop = func() (v T, ok bool) {
		if len(values) == 0 {
			return v, false
		}
		v = values[len(values)-1]
		values = values[:len(values)-1]
		return v, true
	}
	return push, pop
}

func postfix(tokens []string) ([]string, error) {
	var out, waiting []string
	for _, token := range tokens {
		if _, isOperation := operations[token]; !isOperation {
			out = append(out, token)
			continue
		}
		for len(waiting) > 0 {
			top := waiting[len(waiting)-1]
			if order[top].level < order[token].level || order[token].right {
				break
			}
			out = append(out, top)
			waiting = waiting[:len(waiting)-1]
		}
		waiting = append(waiting, token)
	}
	for i := len(waiting) - 1; i >= 0; i-- {
		out = append(out, waiting[i])
	}
	return out, nil
}

func evaluate(tokens []string) (float64, error) {
	push, pop := stack[float64]()
	for _, token := range tokens {
		f, ok := operations[token]
		if !ok {
			n, err := strconv.ParseFloat(token, 64)
			if err != nil {
				return 0, err
			}
			push(n)
			continue
		}
		b, okB := pop()
		a, okA := pop()
		if !okA || !okB {
			return 0, fmt.Errorf("%q needs two numbers", token)
		}
		result, err := f(a, b)
		if err != nil {
			return 0, err
		}
		push(result)
	}
	result, _ := pop()
	return result, nil
}

func Handler(w http.ResponseWriter, r *http.Request) {
	tokens, err := postfix(strings.Fields(r.URL.Query().Get("q")))
	if err != nil {
		http.Error(w, err.Error(), 400)
		return
	}
	result, err := evaluate(tokens)
	if err != nil {
		http.Error(w, err.Error(), 400)
		return
	}
	fmt.Fprintln(w, result)
}
