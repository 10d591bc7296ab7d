package connector

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoplog/stoplog"
)

// answerRule is a compiled AnswerRule.
type answerRule struct {
	status    []statusRange
	when      []condition
	readsBody bool
	verdict
}

type statusRange struct{ from, to int }

// verdict is what an answer means.
type verdict struct {
	outcome stoplog.Outcome
	health  stoplog.Health
	flag    string
	final   bool
}

func compileRules(field string, rules []AnswerRule) ([]answerRule, error) {
	var out []answerRule
	for i := range rules {
		r, err := compileRule(&rules[i])
		if err != nil {
			return nil, fmt.Errorf("%s[%d].%w", field, i, err)
		}
		out = append(out, r)
	}
	return out, nil
}

func compileRule(a *AnswerRule) (answerRule, error) {
	r := answerRule{verdict: verdict{outcome: a.Outcome, health: a.Health, flag: a.Flag, final: a.Final}}
	for _, s := range a.Status {
		sr, err := parseStatus(s)
		if err != nil {
			return r, err
		}
		r.status = append(r.status, sr)
	}
	for i := range a.When {
		c, err := compileCondition(&a.When[i])
		if err == nil {
			err = answerPlace(&c.source)
		}
		if err != nil {
			return r, fmt.Errorf("when[%d].source: %w", i, err)
		}
		r.readsBody = r.readsBody || c.source.readsBody()
		r.when = append(r.when, c)
	}
	if len(r.status) == 0 && len(r.when) == 0 {
		return r, errors.New("status: a rule without any test would decide everything")
	}
	return r, nil
}

func parseStatus(s string) (statusRange, error) {
	if len(s) == 3 && s[0] >= '2' && s[0] <= '5' {
		from := int(s[0]-'0') * 100
		if s[1:] == "xx" {
			return statusRange{from, from + 99}, nil
		}
		n, err := strconv.Atoi(s)
		if err == nil {
			return statusRange{n, n}, nil
		}
	}
	return statusRange{}, fmt.Errorf("status: %q: want 200 to 599, or 2xx to 5xx", s)
}

func (r *answerRule) takesStatus(status int) bool {
	return len(r.status) == 0 || slices.ContainsFunc(r.status, func(s statusRange) bool { return status >= s.from && status <= s.to })
}

// holds reports whether all conditions hold. Structure where text is expected is "does not hold".
func (r *answerRule) holds(in *input) bool {
	for i := range r.when {
		ok, err := r.when[i].holds(in)
		if err != nil || !ok {
			return false
		}
	}
	return true
}

// byStatus is the strict reading of a status that no rule names.
func byStatus(status int, c stoplog.Class) verdict {
	rejected := verdict{outcome: stoplog.OutcomeRejected, health: stoplog.HealthNeutral}
	switch {
	case status < 200 || status > 599:
		return verdict{outcome: stoplog.OutcomeUnknown, health: stoplog.HealthBad, flag: "bad_status"}
	case status < 300 || status == http.StatusNotModified:
		return verdict{outcome: stoplog.OutcomeConfirmed, health: stoplog.HealthGood}
	case status < 400:
		// 302 and 303 after a write are how servers say "done, look there"; 307 and 308 ask to send it elsewhere.
		if c.Durable() && status != http.StatusTemporaryRedirect && status != http.StatusPermanentRedirect {
			rejected.outcome = stoplog.OutcomeUnknown
		}
		rejected.flag = "redirect"
		return rejected
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		rejected.flag = FlagAuth
		return rejected
	case status == http.StatusTooManyRequests || status == http.StatusRequestTimeout:
		rejected.health = stoplog.HealthThrottled
		return rejected
	case status < 500 || status == http.StatusNotImplemented:
		return rejected
	case c.Durable():
		return verdict{outcome: stoplog.OutcomeUnknown, health: stoplog.HealthBad}
	default:
		return verdict{outcome: stoplog.OutcomeRejected, health: stoplog.HealthBad}
	}
}

// byGRPC reads a grpc-status, which counts more than the HTTP status.
func byGRPC(code string) verdict {
	switch code {
	case "0":
		return verdict{outcome: stoplog.OutcomeConfirmed, health: stoplog.HealthGood}
	case "8": // RESOURCE_EXHAUSTED
		return verdict{outcome: stoplog.OutcomeRejected, health: stoplog.HealthThrottled}
	case "7", "16": // PERMISSION_DENIED, UNAUTHENTICATED
		return verdict{outcome: stoplog.OutcomeRejected, health: stoplog.HealthNeutral, flag: FlagAuth}
	case "3", "5", "6", "9", "11", "12": // the request itself
		return verdict{outcome: stoplog.OutcomeRejected, health: stoplog.HealthNeutral}
	case "1", "10": // CANCELLED, ABORTED
		return verdict{outcome: stoplog.OutcomeUnknown, health: stoplog.HealthNeutral}
	default:
		return verdict{outcome: stoplog.OutcomeUnknown, health: stoplog.HealthBad}
	}
}

// byRPC reads a JSON-RPC answer that no rule names. A tool that ran and failed is an effect that took place
// (joshrotenberg/mcp-proxy#222).
func byRPC(d *document) verdict {
	if n := d.find("result"); n != nil {
		v := verdict{outcome: stoplog.OutcomeConfirmed, health: stoplog.HealthGood}
		if e := d.find("result", "isError"); e != nil && e.kind == 't' {
			v.flag, v.final = FlagToolError, true
		}
		return v
	}
	if n := d.find("error", "code"); n != nil && n.kind == '0' {
		switch d.text(n) {
		case "-32700", "-32600", "-32601", "-32602":
			return verdict{outcome: stoplog.OutcomeRejected, health: stoplog.HealthNeutral}
		case "-32603":
			return verdict{outcome: stoplog.OutcomeUnknown, health: stoplog.HealthBad}
		}
	}
	return verdict{outcome: stoplog.OutcomeUnknown, health: stoplog.HealthNeutral}
}

// Flags of a result that the proxy and the receipt know by name. Profiles add their own.
const (
	FlagAuth         = "auth"              // the credential was refused
	FlagTruncated    = "truncated"         // the answer ended before it was whole
	FlagAbandoned    = "abandoned"         // the client left and the rest was not read
	FlagUnread       = "body_unread"       // rules or usage needed a body that could not be read
	FlagToolError    = "tool_error"        // the tool ran and failed
	FlagNoAnswer     = "rpc_answer_absent" // the transport succeeded without a JSON-RPC answer
	FlagStreamError  = "stream_error"      // the provider reported an error inside the stream
	FlagUnterminated = "stream_unended"    // the stream ended without its last event
)

func compileCool(list []Source) ([]source, error) {
	out, err := compileSources("cool", list, answerPlace)
	if err != nil {
		return nil, err
	}
	for i := range out {
		t := out[i].transforms
		if len(t) == 0 || !slices.Contains([]string{"seconds", "millis", "epoch", "duration"}, t[len(t)-1].name) {
			return nil, fmt.Errorf("cool[%d]: transforms: end with seconds, millis, epoch or duration", i)
		}
	}
	return out, nil
}

// wait is the time that a value of a cool source asks for, clamped to [0, maxWait].
func (s *source) wait(v string, now time.Time) (time.Duration, bool) {
	unit := s.transforms[len(s.transforms)-1].name
	if unit == "duration" {
		d, err := time.ParseDuration(strings.TrimSpace(v))
		return clampWait(d), err == nil
	}
	f, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
	if err != nil || f != f {
		return 0, false
	}
	switch unit {
	case "millis":
		f /= 1000
	case "epoch":
		f -= float64(now.UnixMilli()) / 1000
	}
	return clampWait(time.Duration(min(max(f, 0), maxWait.Seconds()) * float64(time.Second))), true
}

func clampWait(d time.Duration) time.Duration { return min(max(d, 0), maxWait) }
