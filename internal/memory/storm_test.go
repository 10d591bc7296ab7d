package memory_test

import (
	"container/heap"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
	"github.com/stoplog/stoplog/admission/admissiontest"
	"github.com/stoplog/stoplog/internal/memory"
)

// A retry storm in virtual time: 390 orders a second; each is evaluated twice, by an agent that tries 3 times, over a client
// that tries twice: 12 starts for one order. The provider takes 2,200 starts a second, and for a minute nothing.
//
// Without budgets the 390 become more than 4,000 starts a second. With them no second ever sees more than 520, no order
// more than its 3, and the provider is asked by at most 20 probes a second while it is down.
type storm struct {
	store   *memory.Store // nil = no budgets: every start goes out
	clock   *admissiontest.Clock
	random  *rand.Rand
	start   time.Time
	events  events
	breaker admission.Breaker
	starts  []time.Duration
	retries []time.Duration
	probes  []time.Duration
	good    map[int]int // answered orders per second
	perWish map[int]int
	ids     int
}

const (
	stormLength            = 150 * time.Second
	downFrom, downTo       = 20 * time.Second, 80 * time.Second
	evaluations, tries     = 2, 6 // tries: of the agent and its client together
	ordersPerSecond        = 390
	attemptTime, answering = 1600 * time.Millisecond, 50 * time.Millisecond
)

func (s *storm) now() time.Duration { return s.clock.Now().Sub(s.start) }

func (s *storm) after(d time.Duration, do func()) { heap.Push(&s.events, event{s.now() + d, do}) }

func (s *storm) run() {
	for i := range int(stormLength.Seconds() * ordersPerSecond) {
		heap.Push(&s.events, event{time.Duration(i) * time.Second / ordersPerSecond, func() { s.attempt(i, 0) }})
	}
	for len(s.events) > 0 && s.events[0].at < stormLength {
		e := heap.Pop(&s.events).(event)
		s.clock.Advance(e.at - s.now())
		e.do()
	}
}

// attempt is one start for an order, the n-th of its caller's persistence.
func (s *storm) attempt(order, n int) {
	if n >= evaluations*tries {
		return
	}
	grant, granted := s.admit(order, n)
	if !granted {
		return // the refusal says not to retry, and the clients obey
	}
	s.starts = append(s.starts, s.now())
	s.perWish[order]++
	down := s.now() >= downFrom && s.now() < downTo
	took := answering
	if down {
		took = attemptTime
	}
	s.after(took, func() {
		if s.store != nil {
			health := stoplog.HealthGood
			if down {
				health = stoplog.HealthBad
			}
			_ = s.store.Settle(context.Background(), admission.Settlement{Grant: grant.ID, Health: health, Tokens: -1})
		}
		if !down {
			s.good[int(s.now()/time.Second)]++
			return
		}
		s.after(time.Duration(s.random.Int64N(int64(400*time.Millisecond))), func() { s.attempt(order, n+1) })
	})
}

func (s *storm) admit(order, n int) (admission.Grant, bool) {
	if s.store == nil {
		return admission.Grant{}, true
	}
	s.ids++
	c := claim(fmt.Sprint(s.ids))
	d := &c.Charges.Destination
	d.Retry = n > 0
	d.Limit = admission.Limit{Rate: 494, Burst: 26, Seats: 5000, RetryRate: 117, RetryBurst: 13}
	d.Breaker = s.breaker
	c.Charges.Intent = admission.IntentCharge{ID: stoplog.IntentID(fmt.Sprint(order)), Budget: 3, Lifetime: 6 * time.Second}
	g, err := s.store.Claim(context.Background(), c)
	if err == nil && n > 0 {
		s.retries = append(s.retries, s.now())
	}
	if g.Probe {
		s.probes = append(s.probes, s.now())
	}
	return g, err == nil
}

func TestRetryStorm(t *testing.T) {
	for name, b := range map[string]admission.Breaker{
		"with breaker":    {RampDouble: 3 * time.Second},
		"budgets alone":   {Consecutive: 1 << 40, MinRequests: 1 << 40},
		"breaker by rate": {Consecutive: 1 << 40, RampDouble: 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStorm()
			s.store, s.breaker = memory.New(memory.Options{Now: s.clock.Now}), b
			s.run()
			starts, retries, probes := mostInASecond(s.starts), mostInASecond(s.retries), mostInASecond(s.probes)
			t.Logf("most in one second: %d starts, %d retries, %d probes", starts, retries, probes)
			if starts > 520 {
				t.Errorf("%d starts in one second, at most 520", starts)
			}
			if retries > 130 {
				t.Errorf("%d retries in one second, at most 130", retries)
			}
			if probes > 20 {
				t.Errorf("%d probes in one second, at most 20", probes)
			}
			for order, n := range s.perWish {
				if n > 3 {
					t.Fatalf("order %d was started %d times, at most 3", order, n)
				}
			}
			recovered := int((downTo + 60*time.Second) / time.Second)
			for i := range 5 {
				if n := s.good[recovered+i]; n < ordersPerSecond*95/100 {
					t.Errorf("%d orders answered in second %d, want 95 %% of %d", n, recovered+i, ordersPerSecond)
				}
			}
		})
	}
}

// The same clients without budgets: if this does not storm, the test above shows nothing.
func TestRetryStormWithoutBudgets(t *testing.T) {
	s := newStorm()
	s.run()
	if n := mostInASecond(s.starts); n < 2200 {
		t.Errorf("%d starts in one second, want a storm", n)
	}
}

func newStorm() *storm {
	s := &storm{clock: admissiontest.NewClock(), random: rand.New(rand.NewPCG(3, 9)), good: map[int]int{}, perWish: map[int]int{}}
	s.start = s.clock.Now()
	return s
}

func mostInASecond(at []time.Duration) int {
	slices.Sort(at)
	most, from := 0, 0
	for i := range at {
		for at[i]-at[from] >= time.Second {
			from++
		}
		most = max(most, i-from+1)
	}
	return most
}

type event struct {
	at time.Duration
	do func()
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}
