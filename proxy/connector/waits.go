package connector

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stoplog/stoplog"
)

// waits reads how long the answer asks to wait, and whether it asks not to try again at all.
func (o *Observer) waits(in *input, res *Result) {
	throttled := res.Health == stoplog.HealthThrottled
	if o.status < 300 && !throttled {
		return
	}
	now := answerTime(o.header)
	if v := o.header.Get("Retry-After"); v != "" {
		res.RetryAfter = retryAfter(v, now)
	}
	if ms, err := strconv.ParseFloat(o.header.Get("Retry-After-Ms"), 64); err == nil && ms > 0 && ms <= float64(maxWait.Milliseconds()) {
		res.RetryAfter = time.Duration(ms * float64(time.Millisecond))
	}
	res.Cool = res.RetryAfter
	for i := range o.rd.profile.cool {
		if !throttled { // vendors send when the window resets with every answer
			break
		}
		s := &o.rd.profile.cool[i]
		values, err := s.values(in, nil)
		if err != nil {
			continue
		}
		for _, v := range values {
			d, ok := s.wait(v, now)
			if ok {
				res.Cool = max(res.Cool, d)
			}
		}
	}
	for _, h := range [...]string{"X-Should-Retry", "Stripe-Should-Retry"} {
		if strings.EqualFold(o.header.Get(h), "false") {
			res.Final = true
		}
	}
}

// answerTime is the answer's own clock, so that a date in it means the same wait on a host whose clock is wrong.
func answerTime(h http.Header) time.Time {
	t, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return time.Now()
	}
	return t
}

// retryAfter reads seconds or a date (RFC 9110 10.2.3), clamped to [0, maxWait]; what is neither is no wait.
func retryAfter(v string, now time.Time) time.Duration {
	v = strings.TrimSpace(v)
	s, err := strconv.ParseFloat(v, 64)
	if err == nil && s == s {
		return time.Duration(min(max(s, 0), maxWait.Seconds()) * float64(time.Second))
	}
	t, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	return clampWait(t.Sub(now))
}
