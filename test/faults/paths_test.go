package faults

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// path is one field of an object that the operator owns.
type path struct {
	pointer string // as of RFC 6901
	key     string // with the keys of entries instead of their indexes
	value   any
}

// ownedPaths returns the leaves of an object that the operator owns, and the entries of lists
// that it owns as a whole.
func ownedPaths(object *unstructured.Unstructured) (found []path, err error) {
	for _, entry := range object.GetManagedFields() {
		if entry.Manager != "goless-operator" || entry.Subresource != "" {
			continue
		}
		var fields map[string]any
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
			return nil, err
		}
		below, err := descend(fields, object.Object, path{})
		if err != nil {
			return nil, err
		}
		found = append(found, below...)
	}
	return found, nil
}

// owned returns the values of all fields that the operator owns in an object, as text.
func owned(object *unstructured.Unstructured) (string, error) {
	paths, err := ownedPaths(object)
	if err != nil {
		return "", err
	}
	values := map[string]any{}
	for _, p := range paths {
		if _, isMap := p.value.(map[string]any); !isMap { // the fields of a map have their own paths
			values[p.key] = p.value
		}
	}
	return text(values), nil
}

// descend walks a set of fields together with its value.
func descend(fields map[string]any, value any, at path) (found []path, err error) {
	at.value = value
	if len(fields) == 0 {
		return []path{at}, nil
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		kind, rest, _ := strings.Cut(key, ":")
		var below any
		var step string
		switch kind {
		case ".":
			if _, isMap := value.(map[string]any); isMap && isEntry(at.pointer) {
				found = append(found, at)
			}
			continue
		case "f":
			below, step = value.(map[string]any)[rest], strings.NewReplacer("~", "~0", "/", "~1").Replace(rest)
		default:
			i, err := entry(value.([]any), kind, rest)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", at.pointer, err)
			}
			below, step = value.([]any)[i], strconv.Itoa(i)
		}
		more, err := descend(fields[key].(map[string]any), below, path{pointer: at.pointer + "/" + step, key: at.key + " " + key})
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	return found, nil
}

// isEntry reports whether a pointer refers to an entry of a list.
func isEntry(pointer string) bool {
	_, err := strconv.Atoi(pointer[strings.LastIndexByte(pointer, '/')+1:])
	return err == nil
}

// entry returns the index in a list of the entry with certain keys, or of a value.
func entry(list []any, kind, want string) (int, error) {
	var wanted any
	if err := json.Unmarshal([]byte(want), &wanted); err != nil {
		return 0, err
	}
	i := slices.IndexFunc(list, func(one any) bool {
		if kind == "v" {
			return reflect.DeepEqual(plain(one), wanted)
		}
		for key, value := range wanted.(map[string]any) {
			if !reflect.DeepEqual(plain(one.(map[string]any)[key]), value) {
				return false
			}
		}
		return true
	})
	if i < 0 {
		return 0, fmt.Errorf("there is no entry %s", want)
	}
	return i, nil
}

// plain converts all numbers to those of encoding/json.
func plain(value any) any {
	if n, ok := value.(int64); ok {
		return float64(n)
	}
	return value
}

// others returns values that may replace a value.
func others(value any) []any {
	switch v := value.(type) {
	case string:
		return []any{v + "x", v + "1", "1" + v, "65Mi", "Always", "Delete", "Recreate", "ClientIP", "Localhost"}
	case bool:
		return []any{!v}
	case int64:
		return []any{v + 1, v - 1}
	case map[string]any:
		return []any{map[string]any{}}
	case []any:
		return []any{[]any{}, []any{"NET_RAW"}}
	}
	return nil
}
