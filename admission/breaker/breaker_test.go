package breaker_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
	"github.com/stoplog/stoplog/admission/breaker"
)

var (
	start = time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)
	conf  = admission.Breaker{
		Window: 10 * time.Second, MinRequests: 4, FailureBPS: 5000, Consecutive: 3, Cooldown: 30 * time.Second,
		MaxCooldown: 120 * time.Second, ProbeSpacing: 50 * time.Millisecond, CloseAfter: 3, RampDouble: 3 * time.Second,
	}
)

// walk drives one breaker by a short language: "b" a bad result, "g" a good one, "n" neutral, "t" throttled, "T" a trip
// signal, "old-b" a bad result of the last epoch, "open" and "half" by hand, "+30s" time passes, "?" an admission whose
// answer is noted, "p" an admission that must be a probe and takes its slot.
type walk struct {
	breaker.Cell
	now   time.Time
	notes []string
}

func (w *walk) do(t *testing.T, steps string) {
	t.Helper()
	health := map[string]stoplog.Health{
		"b": stoplog.HealthBad, "g": stoplog.HealthGood, "n": stoplog.HealthNeutral, "t": stoplog.HealthThrottled,
	}
	for step := range strings.FieldsSeq(steps) {
		word, old := strings.CutPrefix(step, "old-")
		r := breaker.Result{Epoch: w.Epoch, Health: health[word], Trip: word == "T"}
		if old {
			r.Epoch--
		}
		switch word {
		case "b", "g", "n", "t", "T":
			w.Report(w.now, conf, r)
		case "open", "half":
			to := map[string]admission.BreakerState{"open": admission.BreakerOpen, "half": admission.BreakerHalfOpen}[word]
			if err := w.Force(w.now, to); err != nil {
				t.Fatal(err)
			}
		case "?":
			a := w.Admit(w.now, conf)
			switch {
			case a.OK && a.Probe:
				w.notes = append(w.notes, "probe")
			case a.OK:
				w.notes = append(w.notes, "yes")
			default:
				w.notes = append(w.notes, fmt.Sprintf("%s/%s", a.Reason, a.RetryIn))
			}
		case "p":
			a := w.Admit(w.now, conf)
			if !a.OK || !a.Probe {
				t.Fatalf("%q: want a probe, got %+v in state %s", steps, a, w.State)
			}
			w.Probe(w.now, conf)
		default:
			d, err := time.ParseDuration(strings.TrimPrefix(word, "+"))
			if err != nil {
				t.Fatal(err)
			}
			w.now = w.now.Add(d)
		}
	}
}

// Every row of the table in the README, and the guards that keep a row from being taken.
func TestTransitions(t *testing.T) {
	const tripped, probing = "b b b ", "b b b +30s p "
	for _, c := range []struct {
		name, steps string
		want        admission.BreakerState
		notes       string
	}{
		{"new is closed", "?", admission.BreakerClosed, "yes"},
		{"failures in a row", "b b b ?", admission.BreakerOpen, "breaker_open/30s"},
		{"a success between failures", "b b g b ?", admission.BreakerOpen, "breaker_open/30s"}, // 3 of 4
		{"a failure rate", "g g b b ?", admission.BreakerOpen, "breaker_open/30s"},
		{"too few for a rate", "g b b", admission.BreakerClosed, ""},
		{"neutral and throttled do not count", "n n n n t t t t n t", admission.BreakerClosed, ""},
		{"neutral does not break a row", "b n b t b", admission.BreakerOpen, ""},
		{"the window forgets", "g b b +11s g b b", admission.BreakerClosed, ""},
		{"a signal", "T", admission.BreakerOpen, ""},
		{"a signal while open changes nothing", "T +29s T +1s ?", admission.BreakerHalfOpen, "probe"},
		{"open until the cooldown", tripped + "+29999ms ?", admission.BreakerOpen, "breaker_open/250ms"},
		{"half-open after it", tripped + "+30s ?", admission.BreakerHalfOpen, "probe"},
		{"asking takes no slot", tripped + "+30s ? ? ?", admission.BreakerHalfOpen, "probe probe probe"},
		{
			"one probe per spacing", probing + "? +49ms ? +1ms ?", admission.BreakerHalfOpen,
			"probe_slot_used/50ms probe_slot_used/1ms probe",
		},
		{"good probes close", probing + "g +50ms p g +50ms p g ?", admission.BreakerClosed, "yes"},
		{"late good results close nothing", probing + "old-g old-g old-g", admission.BreakerHalfOpen, ""},
		{"late bad results open nothing", probing + "old-b old-b old-b", admission.BreakerHalfOpen, ""},
		{"a neutral probe", probing + "n n n", admission.BreakerHalfOpen, ""},
		{
			"a bad probe doubles the cooldown", probing + "g b ? +59s ? +1s ?", admission.BreakerHalfOpen,
			"breaker_open/1m0s breaker_open/1s probe",
		},
		{"up to a limit", probing + "b +60s p b +120s p b ?", admission.BreakerOpen, "breaker_open/2m0s"},
		{"a close resets the cooldown", probing + "b +60s p g p g p g T ?", admission.BreakerOpen, "breaker_open/30s"},
		{"a signal while half-open, old epoch", probing + "g old-T", admission.BreakerOpen, ""},
		{"two days with a good probe", probing + "g +48h ?", admission.BreakerClosed, "yes"},
		{"two days without one", probing + "n +48h ?", admission.BreakerHalfOpen, "probe"},
		{"by hand open", "open +9999h ?", admission.BreakerOpen, "breaker_open/0s"},
		{"by hand open stays under a signal", "open T +9999h ?", admission.BreakerOpen, "breaker_open/0s"},
		{"by hand half-open", "open half ?", admission.BreakerHalfOpen, "probe"},
		{"by hand half-open while closed", "half p b", admission.BreakerOpen, ""},
		{"a trip in the ramp", probing + "g p g p g b b b ?", admission.BreakerOpen, "breaker_open/30s"},
		{"a clock set back", tripped + "-1h ? +1h +30s ?", admission.BreakerHalfOpen, "breaker_open/1h0m30s probe"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := walk{Cell: breaker.New(start), now: start}
			w.do(t, strings.ReplaceAll(c.steps, "g p", "g +50ms p"))
			if w.State != c.want {
				t.Errorf("state %s, want %s", w.State, c.want)
			}
			if diff := cmp.Diff(c.notes, strings.Join(w.notes, " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A low threshold waits longer than the cooldown: the failure rate at the trip decays by halves.
func TestCauseDecays(t *testing.T) {
	low := conf
	low.FailureBPS = 625 // four halvings of a certain failure, of min(window, cooldown/2) = 10 s each
	c := breaker.New(start)
	c.Report(start, low, breaker.Result{Trip: true})
	a := c.Admit(start.Add(40*time.Second-time.Millisecond), low)
	if a.OK {
		t.Error("half-open before the cause has decayed")
	}
	if got, want := c.View(start, low).RetryAt, start.Add(40*time.Second); !got.Equal(want) {
		t.Errorf("retry at %s, want %s", got, want)
	}
	a = c.Admit(start.Add(40*time.Second), low)
	if !a.Probe {
		t.Errorf("%+v, want a probe", a)
	}
}

func TestForceCloses(t *testing.T) {
	c := breaker.New(start)
	c.Report(start, conf, breaker.Result{Trip: true})
	if err := c.Force(start, admission.BreakerClosed); err == nil || c.State != admission.BreakerOpen {
		t.Errorf("forced to %s: %v", c.State, err)
	}
}

func TestRamp(t *testing.T) {
	w := walk{Cell: breaker.New(start), now: start}
	w.do(t, "b b b +30s p g +50ms p g +50ms p g")
	for after, want := range map[time.Duration]float64{0: 20, 3 * time.Second: 40, 6 * time.Second: 80, time.Hour: 0} {
		if got := w.Ramp(w.now.Add(after), conf); got != want {
			t.Errorf("ramp after %s: %v, want %v", after, got, want)
		}
	}
	w.RampOver()
	if got := w.Ramp(w.now, conf); got != 0 {
		t.Errorf("ramp when over: %v", got)
	}
	none := conf
	none.RampDouble = 0
	if got := w.Ramp(w.now, none); got != 0 {
		t.Errorf("ramp without one configured: %v", got)
	}
}

// A configuration that changes the window in mid-flight forgets nothing.
func TestWindowIsResized(t *testing.T) {
	c, long := breaker.New(start), conf
	long.Consecutive, long.MinRequests = 100, 100
	short := long
	short.Window = time.Second
	for i := range 40 {
		now := start.Add(time.Duration(i) * 100 * time.Millisecond)
		c.Report(now, long, breaker.Result{Epoch: 1, Health: stoplog.HealthBad})
	}
	now := start.Add(4 * time.Second)
	c.Report(now, short, breaker.Result{Epoch: 1, Health: stoplog.HealthGood})
	v := c.View(now, short)
	if v.Fails != 40 || v.Successes != 1 {
		t.Errorf("%d failures and %d successes, want 40 and 1", v.Fails, v.Successes)
	}
}

func TestDefaults(t *testing.T) {
	if diff := cmp.Diff(breaker.Defaults, breaker.Complete(admission.Breaker{})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(conf, breaker.Complete(conf)); diff != "" {
		t.Error(diff)
	}
}

// For random walks: probes keep their distance, a close has its good probes, only people and trips open, epochs count moves,
// and no walk ends where the breaker cannot recover.
func TestRandomWalks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := admission.Breaker{
			Window:       time.Duration(rapid.Int64Range(1, 60).Draw(t, "window")) * time.Second,
			MinRequests:  rapid.Int64Range(1, 30).Draw(t, "min"),
			FailureBPS:   rapid.Int64Range(100, 10000).Draw(t, "bps"),
			Consecutive:  rapid.Int64Range(1, 15).Draw(t, "consecutive"),
			Cooldown:     time.Duration(rapid.Int64Range(1, 60).Draw(t, "cooldown")) * time.Second,
			MaxCooldown:  5 * time.Minute,
			ProbeSpacing: 52_632 * time.Microsecond,
			CloseAfter:   rapid.Int64Range(1, 25).Draw(t, "close"),
			RampDouble:   3 * time.Second,
		}
		c, now := breaker.New(start), start
		epochs := []uint64{c.Epoch}
		var lastProbe time.Time
		goods := int64(0)
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			before := c
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "wait")) >> rapid.IntRange(0, 12).Draw(t, "short"))
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				a := c.Admit(now, cfg)
				if a.OK != (a.Reason == "") || !a.OK && a.RetryIn <= 0 {
					t.Fatalf("answer %+v", a)
				}
				if a.Probe {
					c.Probe(now, cfg)
					if gap := now.Sub(lastProbe); !lastProbe.IsZero() && gap < cfg.ProbeSpacing {
						t.Fatalf("probes %s apart", gap)
					}
					lastProbe = now
				}
			default:
				r := breaker.Result{
					Epoch:  rapid.SampledFrom(epochs).Draw(t, "epoch"),
					Health: stoplog.Health(rapid.IntRange(0, 3).Draw(t, "health")),
					Trip:   rapid.IntRange(0, 40).Draw(t, "trip") == 0,
				}
				if c.State == admission.BreakerHalfOpen && r.Epoch == c.Epoch && r.Health == stoplog.HealthGood {
					goods++
				}
				c.Report(now, cfg, r)
				if r.Epoch != before.Epoch && !r.Trip && c != before {
					t.Fatalf("a result of epoch %d moved epoch %d", r.Epoch, before.Epoch)
				}
			}
			if (c.State != before.State) != (c.Epoch != before.Epoch) || c.Epoch < before.Epoch {
				t.Fatalf("%s epoch %d became %s epoch %d", before.State, before.Epoch, c.State, c.Epoch)
			}
			if c.Epoch != before.Epoch {
				if c.State == admission.BreakerClosed && goods == 0 {
					t.Fatal("closed without a good probe")
				}
				goods = 0
				epochs = append(epochs, c.Epoch)
			}
		}
		for range 1000 {
			if c.State == admission.BreakerClosed {
				return
			}
			now = now.Add(time.Minute)
			if a := c.Admit(now, cfg); a.Probe {
				c.Probe(now, cfg)
				c.Report(now, cfg, breaker.Result{Epoch: c.Epoch, Health: stoplog.HealthGood})
			}
		}
		t.Fatalf("stuck %s", c.State)
	})
}
