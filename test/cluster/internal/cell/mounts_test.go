package cell

import (
	"slices"
	"testing"
)

const mountinfo = `21 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
30 21 0:25 / /home/a/.cache/state/run rw - tmpfs tmpfs rw
31 30 0:26 / /home/a/.cache/state/run/with\040space rw shared:3 - tmpfs tmpfs rw
32 21 0:27 / /home/a/.cache/state2 rw - tmpfs tmpfs rw
33 21 0:28 / /home/a/.cache/state/back\134slash rw - overlay overlay rw
`

func TestMountsUnder(t *testing.T) {
	got, err := mountsUnder(mountinfo, "/home/a/.cache/state")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"/home/a/.cache/state/run",
		"/home/a/.cache/state/run/with space",
		`/home/a/.cache/state/back\slash`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("mountsUnder = %q, want %q", got, want)
	}
}

func TestMountsUnderRefusesOtherText(t *testing.T) {
	if got, err := mountsUnder("36 35 98:0\n", "/"); err == nil {
		t.Errorf("mountsUnder = %q, want an error", got)
	}
}
