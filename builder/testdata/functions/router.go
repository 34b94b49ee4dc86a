// Package handlers routes by hand, with a switch on method and path.
package handlers

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

type item struct {
	ID    int     `json:"id"`
	Name  string  `json:"name"`
	Price float64 `json:"price"`
}

var errNotFound = errors.New("not found")

type store struct {
	mu    sync.RWMutex
	items map[int]item
	last  int
}

func (s *store) get(id int) (item, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	found, ok := s.items[id]
	if !ok {
		return item{}, errNotFound
	}
	return found, nil
}

func (s *store) add(i item) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	i.ID = s.last
	s.items[s.last] = i
	return s.last
}

func (s *store) remove(id int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.items[id]; !ok {
		return errNotFound
	}
	delete(s.items, id)
	return nil
}

var all = &store{items: make(map[int]item)}

// Handler serves /items and /items/ID.
func Handler(w http.ResponseWriter, r *http.Request) {
	path := strings.Trim(r.URL.Path, "/")
	head, tail, _ := strings.Cut(path, "/")
	if head != "items" {
		http.NotFound(w, r)
		return
	}
	if tail == "" && r.Method == http.MethodPost {
		create(w, r)
		return
	}
	id, err := strconv.Atoi(tail)
	if err != nil {
		http.Error(w, "the id must be a number", http.StatusBadRequest)
		return
	}
	switch r.Method {
	case http.MethodGet:
		found, err := all.get(id)
		if err != nil {
			fail(w, err)
			return
		}
		reply(w, http.StatusOK, found)
	case http.MethodDelete:
		if err := all.remove(id); err != nil {
			fail(w, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	default:
		w.Header().Set("Allow", "GET, DELETE")
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

func create(w http.ResponseWriter, r *http.Request) {
	var i item
	if err := json.NewDecoder(r.Body).Decode(&i); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	reply(w, http.StatusCreated, all.add(i))
}

func fail(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	if errors.Is(err, errNotFound) {
		status = http.StatusNotFound
	}
	http.Error(w, err.Error(), status)
}

func reply(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}
