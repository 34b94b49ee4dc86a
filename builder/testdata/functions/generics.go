package handlers

import (
	"cmp"
	"encoding/json"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

type number interface {
	~int | ~int64 | ~float64
}

func sum[T number](values iter.Seq[T]) (total T) {
	for v := range values {
		total += v
	}
	return total
}

func apply[A, B any](from iter.Seq[A], f func(A) B) iter.Seq[B] {
	return func(yield func(B) bool) {
		for a := range from {
			if !yield(f(a)) {
				return
			}
		}
	}
}

type set[K comparable] map[K]struct{}

func (s set[K]) add(k K) bool {
	_, had := s[k]
	s[k] = struct{}{}
	return !had
}

type tree[K cmp.Ordered, V any] struct {
	left, right *tree[K, V]
	key         K
	value       V
}

func (t *tree[K, V]) put(key K, value V) *tree[K, V] {
	if t == nil {
		return &tree[K, V]{key: key, value: value}
	}
	switch c := cmp.Compare(key, t.key); {
	case c < 0:
		t.left = t.left.put(key, value)
	case c > 0:
		t.right = t.right.put(key, value)
	default:
		t.value = value
	}
	return t
}

func (t *tree[K, V]) all(yield func(K, V) bool) bool {
	if t == nil {
		return true
	}
	return t.left.all(yield) && yield(t.key, t.value) && t.right.all(yield)
}

func Handler(w http.ResponseWriter, r *http.Request) {
	words := strings.Fields(r.URL.Query().Get("text"))
	lengths := apply(slices.Values(words), func(s string) int { return len(s) })
	seen := make(set[string])
	var root *tree[string, int]
	for i, word := range words {
		if seen.add(word) {
			root = root.put(word, i)
		}
	}
	first := make(map[string]int)
	root.all(func(word string, i int) bool {
		first[word] = i
		return true
	})
	w.Header().Set("X-Total", strconv.Itoa(sum(lengths)))
	keys := slices.Sorted(maps.Keys(first))
	if err := json.NewEncoder(w).Encode(keys); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}
