package intent

import (
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

const (
	backoffBase = 200 * time.Millisecond
	backoffCap  = 1200 * time.Millisecond
)

// MinUseful is the default least time in which an attempt can be of use. With less there is no retry.
const MinUseful = 250 * time.Millisecond

// Source gives random numbers in [0, n); *rand.Rand of math/rand/v2 is one.
type Source interface{ Int64N(n int64) int64 }

// Backoff is the wait before the next attempt after n used ones: uniform in [0, min(200 ms x 2^n, 1,200 ms)), so the first
// cap is 400 ms. A nil Source is the global one.
func Backoff(n int, random Source) time.Duration {
	most := backoffCap
	if n < 3 {
		most = min(backoffBase<<max(n, 0), backoffCap)
	}
	if random == nil {
		return time.Duration(rand.Int64N(int64(most)))
	}
	return time.Duration(random.Int64N(int64(most)))
}

// Throttle is what a destination said about trying again: the raw header values, as received.
type Throttle struct {
	RetryAfter   []string // Retry-After: seconds or a date
	RetryAfterMS []string // Retry-After-Ms: milliseconds; wins over the other
	Date         string   // Date of the same response: what a Retry-After date is measured against
}

// Advice is what a Throttle amounts to.
type Advice uint8

const (
	Unsaid Advice = iota // nothing that can be understood: wait with Backoff
	Wait                 // wait that long
	Stop                 // the intent's deadline comes first: fail now
)

// After reads a Throttle. The wait is within [0, remaining]. Of several values the longest holds. A date is measured against the
// response's own Date, so that a wrong local clock does not matter; now serves where that is missing. Negative and unreadable
// values say nothing, zero says zero, and a past date says zero.
func After(t Throttle, now time.Time, remaining time.Duration) (time.Duration, Advice) {
	wait, ok := longest(t.RetryAfterMS, func(s string) (time.Duration, bool) { return number(s, time.Millisecond) })
	if !ok {
		base, dated := date(t.Date)
		if !dated {
			base = now
		}
		wait, ok = longest(t.RetryAfter, func(s string) (time.Duration, bool) {
			at, dated := date(s)
			if dated {
				return max(at.Sub(base), 0), true
			}
			return longest(strings.Split(s, ","), func(s string) (time.Duration, bool) { return number(s, time.Second) })
		})
	}
	switch {
	case !ok:
		return 0, Unsaid
	case wait > remaining:
		return 0, Stop
	}
	return wait, Wait
}

// Next is the wait before the next attempt after n used ones, or false if no useful attempt fits before the deadline.
// What the destination asked for is spread by the back-off on top, as far as time allows: otherwise all who were throttled
// together come back together.
func Next(n int, random Source, t Throttle, now time.Time, remaining, minUseful time.Duration) (time.Duration, bool) {
	wait, advice := After(t, now, remaining)
	if advice == Stop || remaining-wait < minUseful {
		return 0, false
	}
	if advice == Wait {
		return min(wait+Backoff(n, random), remaining-minUseful), true
	}
	wait = Backoff(n, random)
	return wait, remaining-wait >= minUseful
}

// NextAttemptTimeout is the time-out of an attempt that begins now: perAttempt (0 = none), cut short by what remains of the
// deadline. False: less than minUseful remains, and no attempt should begin.
func NextAttemptTimeout(remaining, perAttempt, minUseful time.Duration) (time.Duration, bool) {
	if remaining <= 0 || remaining < minUseful {
		return 0, false
	}
	if perAttempt <= 0 {
		return remaining, true
	}
	return min(perAttempt, remaining), true
}

func longest[T any](values []T, read func(T) (time.Duration, bool)) (most time.Duration, ok bool) {
	for _, v := range values {
		d, fine := read(v)
		if fine {
			most, ok = max(most, d), true
		}
	}
	return most, ok
}

func number(s string, unit time.Duration) (time.Duration, bool) {
	s = strings.TrimSpace(s)
	if s == "" || strings.Trim(s, "0123456789.eE+") != "" { // no signs in front, no hex, no names of numbers
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) { // too great is a number: for ever
		return 0, false
	}
	return time.Duration(min(f*float64(unit), math.MaxInt64/2)), true
}

// date reads the three forms of an HTTP date.
func date(s string) (time.Time, bool) {
	for _, layout := range [...]string{"Mon, 02 Jan 2006 15:04:05 GMT", time.RFC850, time.ANSIC} {
		t, err := time.Parse(layout, strings.TrimSpace(s))
		if err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}
