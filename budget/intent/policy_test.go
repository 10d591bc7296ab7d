package intent_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stoplog/stoplog/budget/intent"
)

// most is a source that answers its greatest number.
type most struct{}

func (most) Int64N(n int64) int64 { return n - 1 }

func TestBackoffCaps(t *testing.T) {
	for n, want := range []int64{200, 400, 800, 1200, 1200, 1200} {
		if got := intent.Backoff(n, most{}) + 1; got.Milliseconds() != want {
			t.Errorf("cap after %d attempts: %s, want %d ms", n, got, want)
		}
	}
	if got := intent.Backoff(-1, most{}) + 1; got != 200*time.Millisecond {
		t.Errorf("cap after -1 attempts: %s", got)
	}
}

// Full jitter spreads over the whole window: no quarter of it gets less than a fifth of the waits.
func TestBackoffIsSpread(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var quarters [4]int
	for range 10_000 {
		quarters[intent.Backoff(1, random)*4/(400*time.Millisecond)]++
	}
	for i, n := range quarters {
		if n < 2000 {
			t.Errorf("quarter %d got %d of 10,000", i, n)
		}
	}
	if intent.Backoff(1, nil) >= 400*time.Millisecond {
		t.Error("the global source leaves the window")
	}
}

// Dates were ignored, negatives skipped the wait, zero was ignored, and a wait of days blocked for ever:
// NousResearch/hermes-agent#84738, openai/openai-java#878, apify/crawlee-python#1995, nodejs/undici#5519, mdn/content#28330.
func TestAfter(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)
	server := now.Add(5 * time.Minute) // the local clock is slow
	date := func(t time.Time) string { return t.Format("Mon, 02 Jan 2006 15:04:05 GMT") }
	says := func(v ...string) intent.Throttle { return intent.Throttle{RetryAfter: v, Date: date(server)} }
	for _, c := range []struct {
		name string
		says intent.Throttle
		wait time.Duration
		want intent.Advice
	}{
		{"nothing", says(), 0, intent.Unsaid},
		{"seconds", says("7"), 7 * time.Second, intent.Wait},
		{"zero", says("0"), 0, intent.Wait},
		{"spaces", says("  7 "), 7 * time.Second, intent.Wait},
		{"a fraction", says("1.5"), 1500 * time.Millisecond, intent.Wait},
		{"negative", says("-1"), 0, intent.Unsaid},
		{"words", says("soon"), 0, intent.Unsaid},
		{"empty", says(""), 0, intent.Unsaid},
		{"hex", says("0x10"), 0, intent.Unsaid},
		{"infinite", says("Inf"), 0, intent.Unsaid},
		{"not a number", says("NaN"), 0, intent.Unsaid},
		{"beyond the deadline", says("120"), 0, intent.Stop},
		{"days", says("1e9"), 0, intent.Stop},
		{"for ever", says("1e999"), 0, intent.Stop},
		{"two in one", says("2, 9"), 9 * time.Second, intent.Wait},
		{"two in one, one beyond", says("120, 60"), 0, intent.Stop},
		{"two headers", says("9", "2"), 9 * time.Second, intent.Wait},
		{"one of two unreadable", says("soon", "2"), 2 * time.Second, intent.Wait},
		{"a date", says(date(server.Add(30 * time.Second))), 30 * time.Second, intent.Wait},
		{"a date beyond the deadline", says(date(server.Add(90 * time.Second))), 0, intent.Stop},
		{"a past date", says(date(server.Add(-time.Hour))), 0, intent.Wait},
		{"an old form", says(server.Add(20 * time.Second).Format(time.ANSIC)), 20 * time.Second, intent.Wait},
		{"no Date of its own", intent.Throttle{RetryAfter: []string{date(now.Add(8 * time.Second))}}, 8 * time.Second, intent.Wait},
		{"milliseconds", intent.Throttle{RetryAfterMS: []string{"50"}, RetryAfter: []string{"120"}}, 50 * time.Millisecond, intent.Wait},
		{"unreadable milliseconds", intent.Throttle{RetryAfterMS: []string{"x"}, RetryAfter: []string{"3"}}, 3 * time.Second, intent.Wait},
	} {
		t.Run(c.name, func(t *testing.T) {
			wait, advice := intent.After(c.says, now, time.Minute)
			if wait != c.wait || advice != c.want {
				t.Errorf("%s, advice %d; want %s, advice %d", wait, advice, c.wait, c.want)
			}
		})
	}
}

func TestAfterIsClamped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		said := intent.Throttle{
			RetryAfter: rapid.SliceOf(rapid.String()).Draw(t, "seconds"), RetryAfterMS: rapid.SliceOf(rapid.String()).Draw(t, "ms"),
			Date: rapid.String().Draw(t, "date"),
		}
		remaining := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "remaining"))
		wait, advice := intent.After(said, time.Now(), remaining)
		if wait < 0 || wait > remaining || advice != intent.Wait && wait != 0 {
			t.Fatalf("%s of %s, advice %d", wait, remaining, advice)
		}
	})
}

func TestNext(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		name      string
		after     []string
		remaining time.Duration
		want      time.Duration
		ok        bool
	}{
		{"back-off", nil, 10 * time.Second, 400*time.Millisecond - 1, true},
		{"no useful time is left", nil, 249 * time.Millisecond, 0, false},
		{"the wait leaves no useful time", nil, 600 * time.Millisecond, 0, false},
		{"told to wait, spread on top", []string{"2"}, 10 * time.Second, 2400*time.Millisecond - 1, true},
		{"told to wait, little time to spread", []string{"2"}, 2350 * time.Millisecond, 2100 * time.Millisecond, true},
		{"told to wait too long", []string{"2"}, 2200 * time.Millisecond, 0, false},
		{"told to wait beyond the deadline", []string{"11"}, 10 * time.Second, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := intent.Next(1, most{}, intent.Throttle{RetryAfter: c.after}, now, c.remaining, intent.MinUseful)
			if ok != c.ok || ok && got != c.want {
				t.Errorf("%s, %v; want %s, %v", got, ok, c.want, c.ok)
			}
		})
	}
}

// Each attempt is told what remains, not what there was: envoyproxy/envoy#13196, istio/api#34. Deadline 250 ms, 100 ms
// per attempt, every attempt times out.
func TestAttemptsShareTheDeadline(t *testing.T) {
	remaining, floor := 250*time.Millisecond, 20*time.Millisecond
	var told []time.Duration
	for {
		d, ok := intent.NextAttemptTimeout(remaining, 100*time.Millisecond, floor)
		if !ok {
			break
		}
		told = append(told, d)
		remaining -= d
	}
	want := []time.Duration{100 * time.Millisecond, 100 * time.Millisecond, 50 * time.Millisecond}
	if len(told) != len(want) {
		t.Fatalf("told %v, want %v", told, want)
	}
	for i := range want {
		if told[i] != want[i] {
			t.Errorf("attempt %d was told %s, want %s", i, told[i], want[i])
		}
	}
	if d, ok := intent.NextAttemptTimeout(time.Second, 0, floor); !ok || d != time.Second {
		t.Errorf("without a time-out per attempt: %s, %v", d, ok)
	}
	for _, remaining := range []time.Duration{floor - 1, 0, -time.Second} {
		if _, ok := intent.NextAttemptTimeout(remaining, time.Second, floor); ok {
			t.Errorf("an attempt begins with %s", remaining)
		}
	}
	if _, ok := intent.NextAttemptTimeout(0, time.Second, 0); ok {
		t.Error("an attempt begins without time")
	}
}
