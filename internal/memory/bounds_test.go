package memory_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
	"github.com/stoplog/stoplog/admission/admissiontest"
	"github.com/stoplog/stoplog/internal/memory"
)

func claim(id string) admission.Claim {
	return admission.Claim{ID: id, Class: stoplog.ClassRead, Charges: admission.Charges{
		Level: admission.LevelCondition{Scopes: fleet, Below: stoplog.L3},
		Destination: admission.DestinationCharge{
			Name: "vendor", Tenant: "acme", Requests: 1, Limit: admission.Limit{Rate: 1e9, Burst: 1e9, Seats: 1e9, RetryRate: 1, RetryBurst: 1},
		},
	}}
}

func TestIntentsAreBounded(t *testing.T) {
	clock := admissiontest.NewClock()
	s := memory.New(memory.Options{Now: clock.Now, MaxIntents: 100})
	wish := func(i int) error {
		c := claim(fmt.Sprint("claim", i))
		c.Charges.Intent = admission.IntentCharge{ID: stoplog.IntentID(fmt.Sprint(i)), Budget: 1, Lifetime: time.Duration(1+i%7) * time.Second}
		_, err := s.Claim(t.Context(), c)
		return err
	}
	for i := range 100 {
		if err := wish(i); err != nil {
			t.Fatal(err)
		}
	}
	if err := wish(100); stoplog.ReasonOf(err) != stoplog.ReasonOverloaded {
		t.Errorf("one too many: %v", err)
	}
	clock.Advance(7 * time.Second) // past their deadlines: they are remembered only where there is room
	for i := 101; i < 201; i++ {
		if err := wish(i); err != nil {
			t.Fatalf("the old ones are over: %v", err)
		}
	}
	if err := wish(201); stoplog.ReasonOf(err) != stoplog.ReasonOverloaded {
		t.Errorf("one too many of the new ones: %v", err)
	}
	clock.Advance(time.Hour)
	if err := wish(202); err != nil {
		t.Error(err)
	}
}

func TestClassesAreBounded(t *testing.T) {
	s := memory.New(memory.Options{})
	for i := range 5000 {
		c := claim(fmt.Sprint(i))
		c.Charges.Destination.Class = fmt.Sprint("model-", i) // a word from the request
		if _, err := s.Claim(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	all, err := s.Breakers(t.Context())
	if err != nil || len(all) > 1100 {
		t.Errorf("%d breakers, %v", len(all), err)
	}
}

func TestSettledClaimsAreForgotten(t *testing.T) {
	s := memory.New(memory.Options{Remember: 10})
	for i := range 100 {
		id := fmt.Sprint(i)
		if _, err := s.Claim(t.Context(), claim(id)); err != nil {
			t.Fatal(err)
		}
		if err := s.Settle(t.Context(), admission.Settlement{Grant: id, Tokens: -1}); err != nil {
			t.Fatal(err)
		}
	}
	first, _ := s.Claim(t.Context(), claim("99"))
	if d, _ := s.Destinations(t.Context()); d[0].Seats != 0 {
		t.Errorf("%+v: the last id was forgotten", first)
	}
}

func TestRestore(t *testing.T) {
	clock := admissiontest.NewClock()
	s := memory.New(memory.Options{Now: clock.Now})
	s.Restore([]admission.Balance{
		{Key: "running", Used: 50, Held: 20, Limit: 100, Ends: clock.Now().Add(time.Hour)},
		{Key: "over", Used: 50, Ends: clock.Now()},
		{Key: "", Used: 50},
		{Key: "negative", Used: -50},
	})
	s.Restore([]admission.Balance{{Key: "running", Used: 10}}) // an older view lowers nothing
	b, err := s.Balances(t.Context())
	if err != nil || len(b) != 1 || b[0].Key != "running" || b[0].Used != 70 || b[0].Held != 0 {
		t.Errorf("%+v, %v", b, err)
	}
}

// For random lives: what is taken is what open grants took, within every limit, and at the end everything is back.
func TestBooksBalance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := admissiontest.NewClock()
		s := memory.New(memory.Options{Now: clock.Now})
		type open struct {
			id       string
			estimate int64
		}
		var grants []open
		used, next := int64(0), 0
		seats := rapid.Int64Range(0, 5).Draw(t, "seats")
		const limit = 100
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			switch step := rapid.IntRange(0, 4).Draw(t, "step"); {
			case step == 4:
				clock.Advance(time.Duration(rapid.IntRange(0, 20).Draw(t, "seconds")) * time.Second)
			case step >= 2 && len(grants) > 0:
				i := rapid.IntRange(0, len(grants)-1).Draw(t, "which")
				g := grants[i]
				grants = append(grants[:i], grants[i+1:]...)
				z := admission.Settlement{Grant: g.id, Tokens: -1, NotSent: rapid.Bool().Draw(t, "notSent")}
				actual := rapid.Int64Range(-1, g.estimate).Draw(t, "actual")
				z.Spend = []int64{actual}
				_ = s.Settle(t.Context(), z)
				_ = s.Settle(t.Context(), z)
				switch {
				case z.NotSent:
				case actual < 0:
					used += g.estimate
				default:
					used += actual
				}
			default:
				next++
				c := claim(fmt.Sprint(next))
				c.Charges.Destination.Limit.Seats = seats
				estimate := rapid.Int64Range(0, 60).Draw(t, "estimate")
				c.Charges.Spend = []admission.SpendCharge{{Budget: "b", Key: "k", Limit: limit, Estimate: estimate, Hold: 30 * time.Second}}
				g, err := s.Claim(t.Context(), c)
				reserved := used
				for _, o := range grants {
					reserved += o.estimate
				}
				fits := reserved+estimate <= limit && int64(len(grants)) < seats
				if (err == nil) != fits {
					t.Fatalf("granted: %v, fits: %v (%d of %d reserved, %d of %d seats)", err, fits, reserved, limit, len(grants), seats)
				}
				if err == nil {
					grants = append(grants, open{g.ID, estimate})
				}
			}
			balances, _ := s.Balances(t.Context())
			held := int64(0)
			for _, g := range grants {
				held += g.estimate
			}
			// A reservation that expired is used, not held; together they are the same.
			if len(balances) > 0 && balances[0].Used+balances[0].Held != used+held {
				t.Fatalf("%+v, want %d used and %d open", balances[0], used, held)
			}
			if d, _ := s.Destinations(t.Context()); len(d) > 0 && d[0].Seats != int64(len(grants)) {
				t.Fatalf("%d seats, want %d", d[0].Seats, len(grants))
			}
		}
	})
}

func BenchmarkClaimSettle(b *testing.B) {
	for _, c := range []struct {
		name string
		tune func(*admission.Claim, int)
	}{
		{"read", func(*admission.Claim, int) {}},
		{"model", func(c *admission.Claim, i int) {
			d := &c.Charges.Destination
			d.Class, d.Tokens, d.Limit.TokenRate, d.Limit.TokenBurst = "gpt", 100, 1e12, 1e12
			c.Charges.Intent = admission.IntentCharge{ID: stoplog.IntentID(c.ID), Tenant: "acme", Budget: 1 << 20, Lifetime: time.Hour}
			c.Charges.Spend = []admission.SpendCharge{{Budget: "b", Key: "b/tenant/acme/2026", Unit: "usd_micro", Limit: 1 << 60, Estimate: 10}}
		}},
	} {
		ids := make([]string, 1<<16)
		for i := range ids {
			ids[i] = fmt.Sprint("claim-", i)
		}
		once := func(b *testing.B, s *memory.Store, i int) {
			x := claim(ids[i%len(ids)])
			c.tune(&x, i)
			g, err := s.Claim(b.Context(), x)
			if err != nil {
				b.Fatal(err)
			}
			_ = s.Settle(b.Context(), admission.Settlement{Grant: g.ID, Health: stoplog.HealthGood, Tokens: 50, Spend: []int64{5}})
		}
		b.Run(c.name, func(b *testing.B) {
			s := memory.New(memory.Options{MaxIntents: 1 << 20})
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				once(b, s, i)
				i++
			}
		})
	}
}

func BenchmarkLevel(b *testing.B) {
	s := memory.New(memory.Options{})
	scopes := stoplog.Actor{Tenant: "acme", Org: "ops", Agent: "bot"}.Scopes("vendor")
	b.ReportAllocs()
	for b.Loop() {
		_, _ = s.Level(scopes)
	}
}
