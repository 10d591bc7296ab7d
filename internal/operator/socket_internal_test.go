package operator

import "testing"

func TestMayOperate(t *testing.T) {
	for _, x := range []struct {
		uid, owner int
		want       bool
	}{{1000, 1000, true}, {0, 1000, true}, {1001, 1000, false}, {1000, 0, false}} {
		if got := mayOperate(x.uid, x.owner); got != x.want {
			t.Errorf("uid %d at a sidecar of %d: %v", x.uid, x.owner, got)
		}
	}
}
