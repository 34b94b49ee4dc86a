package checkout_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"goless.io/test/cluster/internal/checkout"
)

// newCheckout creates the directories of a checkout.
func newCheckout(t *testing.T) checkout.Checkout {
	t.Helper()
	dir := t.TempDir()
	module := filepath.Join(dir, "test", "cluster")
	if err := os.MkdirAll(module, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(module, "go.mod"), []byte("module m\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := checkout.Find(module)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestFindWalksUp(t *testing.T) {
	c := newCheckout(t)
	if got, want := c.Source(), filepath.Join(c.Root, "test", "cluster"); got != want {
		t.Errorf("Source = %q, want %q", got, want)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(c.Root, link); err != nil {
		t.Fatal(err)
	}
	if same, err := checkout.Find(link); err != nil || same != c {
		t.Errorf("Find through a link = %v, %v, want %v", same, err, c)
	}
}

func TestFindOutside(t *testing.T) {
	if c, err := checkout.Find(t.TempDir()); err == nil || !strings.Contains(err.Error(), "outside of any checkout") {
		t.Errorf("Find = %v, %v, want an error that contains outside", c, err)
	}
}

func TestNamesDiffer(t *testing.T) {
	a, b := newCheckout(t), newCheckout(t)
	if a.Name() == b.Name() {
		t.Errorf("two checkouts have the name %s", a.Name())
	}
	// Names of network interfaces have at most 15 characters, the lowest limit of all uses of the
	// name.
	if n := len(a.Name()); n > 15 {
		t.Errorf("%s has %d characters", a.Name(), n)
	}
}

func TestPortsAreRemembered(t *testing.T) {
	c := newCheckout(t)
	if _, err := c.Ports(); err == nil {
		t.Error("Ports before the first cluster returned no error")
	}
	all := func(int) bool { return true }
	first, err := c.ChoosePorts(all)
	if err != nil {
		t.Fatal(err)
	}
	if first.API == first.Registry || first.API < 20000 || first.Registry >= 32768 {
		t.Errorf("ports = %+v", first)
	}
	if again, err := c.ChoosePorts(all); err != nil || again != first {
		t.Errorf("second time = %+v, %v, want %+v", again, err, first)
	}

	taken := func(port int) bool { return port != first.API }
	other, err := c.ChoosePorts(taken)
	if err != nil {
		t.Fatal(err)
	}
	if other.API == first.API || other.Registry == first.API {
		t.Errorf("ports = %+v while %d is in use", other, first.API)
	}
	if remembered, err := c.Ports(); err != nil || remembered != other {
		t.Errorf("Ports = %+v, %v, want %+v", remembered, err, other)
	}
}

func TestNoPortFree(t *testing.T) {
	if p, err := newCheckout(t).ChoosePorts(func(int) bool { return false }); err == nil {
		t.Errorf("ChoosePorts = %+v, want an error", p)
	}
}
