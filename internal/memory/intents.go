package memory

import (
	"encoding/binary"
	"hash/maphash"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
)

// intentGrace is how long an intent is known after its deadline, if there is room: an agent that asks again under the same
// id is told that the intent is over, and does not get a second budget.
const intentGrace = 5 * time.Minute

// longestIntent bounds a lifetime, so that a mistake in a configuration cannot keep intents for ever.
const longestIntent = 24 * time.Hour

// intentKey is a keyed hash of tenant and id: a table without pointers costs the garbage collector nothing.
type intentKey [16]byte

type intent struct {
	deadline time.Duration // since intents.epoch
	budget   int32
	used     int32
}

type intents struct {
	most  int
	epoch time.Time // of the first intent; keeps the monotonic clock
	known map[intentKey]intent
	ends  []ending // heap, soonest first
	seeds [2]maphash.Seed
}

func newIntents(most int) intents {
	return intents{
		most: most, known: make(map[intentKey]intent), seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
	}
}

type ending struct {
	at  time.Duration
	key intentKey
}

// attempt is one attempt of an intent, not yet taken. The zero attempt belongs to no intent.
type attempt struct {
	key      intentKey
	intent   intent
	deadline time.Time
}

func (a attempt) number() int { return int(a.intent.used) + 1 }
func (a attempt) left() int   { return max(int(a.intent.budget-a.intent.used)-1, 0) }

func (s *intents) check(now time.Time, c *admission.IntentCharge) (attempt, *stoplog.Error) {
	if c.ID == "" {
		return attempt{}, nil
	}
	if s.epoch.IsZero() {
		s.epoch = now
	}
	at := now.Sub(s.epoch)
	s.forget(at)
	if len(s.known) >= s.most {
		s.forgetOne(at + intentGrace)
	}
	a := attempt{key: s.key(c)}
	known, ok := s.known[a.key]
	if !ok {
		if len(s.known) >= s.most {
			return a, refuse(stoplog.ReasonOverloaded, time.Second)
		}
		known = intent{deadline: at + min(c.Lifetime, longestIntent), budget: int32(min(max(c.Budget, 0), 1<<20))}
	}
	a.intent, a.deadline = known, s.epoch.Add(known.deadline)
	switch {
	case known.deadline <= at:
		return a, refuse(stoplog.ReasonDeadlineExceeded, 0)
	case known.used >= known.budget:
		return a, refuse(stoplog.ReasonAttemptsUsed, 0)
	}
	return a, nil
}

func (s *intents) take(a attempt) {
	if a.intent.budget == 0 {
		return
	}
	if a.intent.used == 0 {
		s.push(ending{a.intent.deadline + intentGrace, a.key})
	}
	a.intent.used++
	s.known[a.key] = a.intent
}

func (s *intents) forget(at time.Duration) {
	for s.forgetOne(at) {
	}
}

func (s *intents) forgetOne(at time.Duration) bool {
	if len(s.ends) == 0 || s.ends[0].at > at {
		return false
	}
	delete(s.known, s.ends[0].key)
	s.pop()
	return true
}

func (s *intents) key(c *admission.IntentCharge) (k intentKey) {
	var buf [192]byte
	b := append(buf[:0], c.Tenant...)
	b = append(append(b, 0), c.ID...)
	binary.NativeEndian.PutUint64(k[:8], maphash.Bytes(s.seeds[0], b))
	binary.NativeEndian.PutUint64(k[8:], maphash.Bytes(s.seeds[1], b))
	return k
}

func (s *intents) push(e ending) {
	s.ends = append(s.ends, e)
	i := len(s.ends) - 1
	for i > 0 {
		up := (i - 1) / 2
		if s.ends[up].at <= s.ends[i].at {
			return
		}
		s.ends[up], s.ends[i] = s.ends[i], s.ends[up]
		i = up
	}
}

func (s *intents) pop() {
	last := len(s.ends) - 1
	s.ends[0] = s.ends[last]
	s.ends = s.ends[:last]
	for i := 0; ; {
		least, l, r := i, 2*i+1, 2*i+2
		if l < last && s.ends[l].at < s.ends[least].at {
			least = l
		}
		if r < last && s.ends[r].at < s.ends[least].at {
			least = r
		}
		if least == i {
			return
		}
		s.ends[i], s.ends[least] = s.ends[least], s.ends[i]
		i = least
	}
}
