package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
)

// Breakers implements admission.Operate: all breakers, by destination and class.
func (s *Store) Breakers(context.Context) ([]admission.BreakerView, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.options.Now()
	var all []admission.BreakerView
	for _, d := range s.destinations {
		all = append(all, d.view(d.own, now))
		for _, c := range d.classes {
			all = append(all, d.view(c, now))
		}
	}
	slices.SortFunc(all, func(a, b admission.BreakerView) int {
		return cmp.Or(cmp.Compare(a.Destination, b.Destination), cmp.Compare(a.Class, b.Class))
	})
	return all, nil
}

// Force implements admission.Operate. A breaker opened by hand stays open until a person half-opens it; class "" is the whole
// destination. Opening one that has not been used yet is allowed, half-opening it is not_found.
func (s *Store) Force(_ context.Context, name, class string, to admission.BreakerState) error {
	moved, err := s.force(name, class, to)
	s.tell(moved)
	return err
}

func (s *Store) force(name, class string, to admission.BreakerState) (moved []admission.BreakerView, err error) {
	if name == "" {
		return nil, stoplog.Refuse(stoplog.ReasonNotFound, "no destination is named")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.options.Now()
	if to != admission.BreakerOpen {
		d := s.destinations[name]
		if d == nil || class != "" && d.classes[class] == nil {
			return nil, stoplog.Refuse(stoplog.ReasonNotFound, "no such breaker has been used")
		}
	}
	d := s.destination(name, now)
	c := d.cell(class, now)
	before := c.Epoch
	err = c.Force(now, to)
	if err != nil {
		return nil, err
	}
	s.note(d, c, before, now)
	moved, s.moved = s.moved, nil
	return moved, nil
}

// Balances implements admission.Operate: the accounts of running periods, by key.
func (s *Store) Balances(context.Context) ([]admission.Balance, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accounts.balances(s.options.Now()), nil
}

// Destinations implements admission.Operate: what each destination has left, by name.
func (s *Store) Destinations(context.Context) ([]admission.DestinationView, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.options.Now()
	all := make([]admission.DestinationView, 0, len(s.destinations))
	for _, name := range slices.Sorted(maps.Keys(s.destinations)) {
		d := s.destinations[name]
		all = append(all, admission.DestinationView{
			Destination: name,
			Tokens:      d.limits.Requests(now, d.limit),
			Seats:       d.limits.Seats(),
			SeatLimit:   d.limit.Seats,
			Tenants:     d.limits.Tenants(),
		})
	}
	return all, nil
}
