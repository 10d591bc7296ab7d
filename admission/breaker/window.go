package breaker

import "time"

const slots = 10

// window counts results in ten slots by their age since the breaker's last transition, so that it needs no clock and no
// sweeping: a slot that is met again under another number starts empty.
type window struct {
	width time.Duration // of one slot
	slot  [slots]struct{ n, good, bad int64 }
}

func (w *window) add(age, length time.Duration, bad bool) {
	width := max(length/slots, 1)
	if w.width != width {
		w.resize(age, width)
	}
	n := int64(max(age, 0) / width)
	s := &w.slot[n%slots]
	if s.n != n {
		s.n, s.good, s.bad = n, 0, 0
	}
	if bad {
		s.bad++
	} else {
		s.good++
	}
}

// resize follows a new configuration. What is still in the old window counts as of now: late rather than forgotten.
func (w *window) resize(age, width time.Duration) {
	good, bad := w.sum(age)
	*w = window{width: width}
	n := int64(max(age, 0) / width)
	w.slot[n%slots].n, w.slot[n%slots].good, w.slot[n%slots].bad = n, good, bad
}

func (w *window) sum(age time.Duration) (good, bad int64) {
	if w.width == 0 {
		return 0, 0
	}
	n := int64(max(age, 0) / w.width)
	for i := range w.slot {
		if n-w.slot[i].n < slots {
			good, bad = good+w.slot[i].good, bad+w.slot[i].bad
		}
	}
	return good, bad
}
