package gocache

import (
	"os"
	"testing"
)

// TestDamaged checks that a corrupt entry is a miss.
func TestDamaged(t *testing.T) {
	action, output := []byte{1, 2}, []byte{3, 4}
	for name, damage := range map[string]func(entry, data string) error{
		"Whole":     func(string, string) error { return nil },
		"NoData":    func(_, data string) error { return os.Remove(data) },
		"ShortData": func(_, data string) error { return os.Truncate(data, 1) },
		"NoEntry":   func(entry, _ string) error { return os.Remove(entry) },
		"HalfEntry": func(entry, _ string) error { return os.Truncate(entry, 12) },
	} {
		t.Run(name, func(t *testing.T) {
			c := cache{write: t.TempDir()}
			c.read = []string{c.write}
			if _, err := c.put(request{ActionID: action, OutputID: output}, []byte("body")); err != nil {
				t.Fatal(err)
			}
			if err := damage(path(c.write, action, "a"), path(c.write, output, "d")); err != nil {
				t.Fatal(err)
			}
			got := c.answer(request{ID: 7, Command: "get", ActionID: action}, nil)
			if got.Miss != (name != "Whole") || got.ID != 7 {
				t.Errorf("the answer is %+v", got)
			}
		})
	}
}
