package limit

import (
	"cmp"
	"slices"
	"time"

	"github.com/stoplog/stoplog/admission"
)

const (
	defaultShareWindow = 250 * time.Millisecond
	// poured is the part of the capacity that the water level hands out; the rest keeps the bucket from running dry, so
	// that a tenant inside its share finds a token.
	poured = 0.95
	// forgetAfter: a tenant that asked for nothing for so many windows, and holds no seat, is forgotten.
	forgetAfter = 40
)

// share splits a contended destination by max-min fairness with weights. Per window it measures what each tenant asked
// for, in seconds of the destination's capacity, admitted or not. If the last window was oversubscribed, the capacity is
// poured like water over the tenants' demands: who wants less than the level gets it all, the others get the level times
// their weight. A tenant earns its level as credit, smoothly, so that nobody can drain the bucket in the first millisecond of a
// window; asking for more than the level does not move it.
type share struct {
	window  int64
	start   time.Time // of the window
	level   float64   // seconds of capacity per window and weight; < 0 = not contended
	length  time.Duration
	tenants map[string]*tenant
	sorted  []*tenant // scratch
}

type tenant struct {
	weight float64
	seats  int64

	window int64
	asked  float64 // in that window
	credit float64
	known  bool // credit is meaningful
	at     time.Time
}

// demand notes what a tenant asks for and returns it.
func (s *share) demand(now time.Time, name string, weight, cost float64, l admission.Limit) *tenant {
	s.turn(now, l)
	t := s.tenants[name]
	if t == nil {
		if s.tenants == nil {
			s.tenants = make(map[string]*tenant)
		}
		t = &tenant{}
		s.tenants[name] = t
	}
	if !(weight > 0) {
		weight = 1
	}
	t.weight = min(weight, 1e6)
	if t.window != s.window {
		t.window, t.asked = s.window, 0
	}
	t.asked += cost
	return t
}

// credit is what the tenant may take now, in seconds of capacity. Without contention it is whatever it asks for.
func (s *share) credit(now time.Time, t *tenant, cost float64, l admission.Limit) float64 {
	defer func() { t.known, t.at = true, now }()
	if s.level < 0 {
		t.credit = cost
		return cost
	}
	// A tenant's burst is its share of a window, shorter where the bucket is small: the bursts of all together must
	// leave the bucket half full.
	window := min(s.length.Seconds(), l.Burst/(1.9*l.Rate))
	most := max(cost, s.rate(t)*window)
	if !t.known {
		t.credit = most
	} else {
		t.credit = min(most, t.credit+now.Sub(t.at).Seconds()*s.rate(t))
	}
	return t.credit
}

// rate is what the tenant earns, in seconds of capacity per second.
func (s *share) rate(t *tenant) float64 {
	if s.level < 0 {
		return 0
	}
	return s.level * t.weight / s.length.Seconds()
}

// turn opens the window of now and pours the level from the demands of the one before.
func (s *share) turn(now time.Time, l admission.Limit) {
	length := l.ShareWindow
	if length <= 0 {
		length = defaultShareWindow
	}
	gone := now.Sub(s.start)
	if s.length != length || gone < 0 {
		s.length, s.start, s.level = length, now, -1
		s.window += 2 // the demands so far belong to no window that counts
		return
	}
	if gone < length {
		return
	}
	n := int64(gone / length)
	s.window += n
	s.start = s.start.Add(time.Duration(n) * length)
	s.pour(length.Seconds())
}

func (s *share) pour(capacity float64) {
	s.level = -1
	s.sorted = s.sorted[:0]
	var weights, demands float64
	for name, t := range s.tenants {
		switch {
		case t.window == s.window-1:
			s.sorted = append(s.sorted, t)
			weights, demands = weights+t.weight, demands+t.asked
		case t.window < s.window-forgetAfter && t.seats == 0:
			delete(s.tenants, name)
		}
	}
	// One tenant has nobody to share with. One of whom others are merely silent now must leave room for their return.
	if demands <= capacity || len(s.tenants) < 2 {
		return
	}
	slices.SortFunc(s.sorted, func(a, b *tenant) int { return cmp.Compare(a.asked/a.weight, b.asked/b.weight) })
	left := capacity * poured
	for _, t := range s.sorted {
		level := left / weights
		if t.asked/t.weight > level {
			s.level = level
			return
		}
		left, weights = left-t.asked, weights-t.weight
	}
}

// Tenants are the tenants that the destination remembers, by name.
func (s *State) Tenants() []admission.TenantView {
	v := make([]admission.TenantView, 0, len(s.share.tenants))
	for name, t := range s.share.tenants {
		v = append(v, admission.TenantView{Tenant: name, Seats: t.seats, Weight: t.weight})
	}
	slices.SortFunc(v, func(a, b admission.TenantView) int { return cmp.Compare(a.Tenant, b.Tenant) })
	return v
}
