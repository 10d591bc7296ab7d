package admissiontest

import (
	"math"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
)

// offer is one tenant's steady demand.
type offer struct {
	tenant string
	weight float64
	rate   float64 // claims per second
}

// serve lets tenants ask for a while and returns how many per second each was granted, without the first second.
func (f *fixture) serve(d time.Duration, l admission.Limit, offers ...offer) map[string]float64 {
	f.Helper()
	const tick = 2 * time.Millisecond
	due, got := make([]float64, len(offers)), make(map[string]float64)
	for at := time.Duration(0); at < d; at += tick {
		for i := range offers {
			o := &offers[(i+int(at/tick))%len(offers)] // nobody is always first
			k := (i + int(at/tick)) % len(offers)
			due[k] += o.rate * tick.Seconds()
			for ; due[k] >= 1; due[k]-- {
				n := f.attempts(1, good, tenant(o.tenant), weight(o.weight), limits(func(to *admission.Limit) { *to = l }))
				if at >= time.Second {
					got[o.tenant] += float64(n)
				}
			}
		}
		f.clock.Advance(tick)
	}
	for t := range got {
		got[t] /= (d - time.Second).Seconds()
	}
	return got
}

func (f *fixture) near(what string, got, want, tolerance float64) {
	f.Helper()
	if math.Abs(got-want) > want*tolerance {
		f.Errorf("%s: %.1f/s, want %.1f within %.0f %%", what, got, want, tolerance*100)
	}
}

var shared = admission.Limit{Rate: 100, Burst: 20, Seats: 1e6, TenantSeats: 1e6}

var shareCases = map[string]func(*fixture){
	// Max-min fair with weights 1, 1, 2: A is satisfied with 20, the rest goes 1:2. C asks for 20 times the capacity.
	"one who asks for everything takes its share": func(f *fixture) {
		got := f.serve(8*time.Second, shared, offer{"A", 1, 20}, offer{"B", 1, 90}, offer{"C", 2, 2000})
		f.near("A", got["A"], 20, 0.1)
		f.near("B", got["B"], 80.0/3, 0.1)
		f.near("C", got["C"], 160.0/3, 0.1)
		f.near("all", got["A"]+got["B"]+got["C"], 100, 0.03)
	},

	"what nobody uses is borrowed": func(f *fixture) {
		got := f.serve(5*time.Second, shared, offer{"alone", 1, 1000})
		f.near("alone", got["alone"], 100, 0.03)
		got = f.serve(5*time.Second, shared, offer{"alone", 1, 1000}, offer{"small", 1, 10})
		f.near("small", got["small"], 10, 0.1)
		f.near("alone, with a small neighbour", got["alone"], 90, 0.05)
	},

	"who is alone is not told of shares": func(f *fixture) {
		few := limits(func(l *admission.Limit) { *l = shared })
		for range 2000 {
			_, err := f.Store.Claim(f.Context(), f.claim(few, tenant("alone")))
			if err != nil && stoplog.ReasonOf(err) == stoplog.ReasonShareUsed {
				f.Fatal(err)
			}
			f.clock.Advance(time.Millisecond)
		}
	},

	"asking for more gains nothing": func(f *fixture) {
		got := f.serve(5*time.Second, shared, offer{"loud", 1, 3000}, offer{"quiet", 1, 60})
		f.near("loud", got["loud"], 50, 0.1)
		f.near("quiet", got["quiet"], 50, 0.1)
	},

	"without contention nobody is refused": func(f *fixture) {
		got := f.serve(4*time.Second, shared, offer{"A", 1, 30}, offer{"B", 1, 30}, offer{"C", 1, 30})
		for t, n := range got {
			f.near(t, n, 30, 0.02)
		}
	},
}
