package connector

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoplog/stoplog"
)

func headers(lines ...string) http.Header {
	return request("GET /", "", lines...).Header
}

func classify(t testing.TB, p *Profile, r *Request) *Reading {
	t.Helper()
	rd, err := p.Classify(r)
	if err != nil {
		t.Fatal(err)
	}
	return rd
}

func write(t testing.TB) *Reading {
	s := testSpec()
	s.Idempotency = nil
	return classify(t, compile(t, s), request("POST /repos/a/b/issues/1/comments", `{"body":"x"}`, asJSON))
}

func read(t testing.TB) *Reading { return classify(t, compile(t, testSpec()), request("GET /x", "")) }

func keyed(t testing.TB) *Reading {
	return classify(t, compile(t, testSpec()), request("POST /charges", `amount=1&currency=usd`, asForm, "Idempotency-Key: k"))
}

func TestStatus(t *testing.T) {
	type want struct {
		outcome stoplog.Outcome
		health  stoplog.Health
		retry   bool
	}
	const (
		unknown, notSent, confirmed, rejected = stoplog.OutcomeUnknown, stoplog.OutcomeNotSent, stoplog.OutcomeConfirmed, stoplog.OutcomeRejected
		neutral, good, bad, throttled         = stoplog.HealthNeutral, stoplog.HealthGood, stoplog.HealthBad, stoplog.HealthThrottled
	)
	_ = notSent
	for status, tc := range map[int]struct{ write, read want }{
		200: {want{confirmed, good, false}, want{confirmed, good, false}},
		201: {want{confirmed, good, false}, want{confirmed, good, false}},
		202: {want{confirmed, good, false}, want{confirmed, good, false}},
		204: {want{confirmed, good, false}, want{confirmed, good, false}},
		304: {want{confirmed, good, false}, want{confirmed, good, false}},
		303: {want{unknown, neutral, false}, want{rejected, neutral, false}},
		307: {want{rejected, neutral, false}, want{rejected, neutral, false}},
		// sgl-project/sglang#25811: one caller's mistake says nothing about the destination.
		400: {want{rejected, neutral, false}, want{rejected, neutral, false}},
		401: {want{rejected, neutral, false}, want{rejected, neutral, false}},
		403: {want{rejected, neutral, false}, want{rejected, neutral, false}},
		404: {want{rejected, neutral, false}, want{rejected, neutral, false}},
		408: {want{rejected, throttled, true}, want{rejected, throttled, true}},
		409: {want{rejected, neutral, false}, want{rejected, neutral, false}},
		422: {want{rejected, neutral, false}, want{rejected, neutral, false}},
		429: {want{rejected, throttled, true}, want{rejected, throttled, true}},
		// probot/probot#921: the comment was created although the API said 500.
		500: {want{unknown, bad, false}, want{rejected, bad, true}},
		501: {want{rejected, neutral, false}, want{rejected, neutral, false}},
		502: {want{unknown, bad, false}, want{rejected, bad, true}},
		503: {want{unknown, bad, false}, want{rejected, bad, true}},
		504: {want{unknown, bad, false}, want{rejected, bad, true}},
		103: {want{unknown, bad, false}, want{unknown, bad, false}}, // no final answer (golang/go#26088)
		700: {want{unknown, bad, false}, want{unknown, bad, true}},
	} {
		for name, x := range map[string]struct {
			rd   *Reading
			want want
		}{"write": {write(t), tc.write}, "read": {read(t), tc.read}} {
			res := x.rd.Observe(status, http.Header{}).End(End{Complete: true})
			got := want{res.Outcome, res.Health, x.rd.Retryable(res, status)}
			if got != x.want {
				t.Errorf("%d after a %s: got %v %v retry %v, want %v %v retry %v", status, name,
					got.outcome, got.health, got.retry, x.want.outcome, x.want.health, x.want.retry)
			}
		}
	}
}

func TestTransferAndTrailer(t *testing.T) {
	for _, tc := range []struct {
		name    string
		status  int
		header  http.Header
		body    string
		end     End
		outcome stoplog.Outcome
		health  stoplog.Health
		flags   string
	}{
		// Portkey-AI/gateway#267: a broken transfer is no 200.
		{"cut", 200, nil, `{"id":"1"`, End{}, stoplog.OutcomeUnknown, stoplog.HealthBad, FlagTruncated},
		{"cut refusal", 400, nil, `{`, End{}, stoplog.OutcomeUnknown, stoplog.HealthBad, FlagTruncated},
		{"client gone", 200, nil, `{"id"`, End{Abandoned: true}, stoplog.OutcomeConfirmed, stoplog.HealthNeutral, FlagAbandoned},
		// golang/go#20437, #29031: the outcome stands in a trailer that nobody announced.
		{"unannounced trailer", 200, nil, "x", End{Complete: true, Trailer: headers("Grpc-Status: 14")}, stoplog.OutcomeUnknown, stoplog.HealthBad, ""},
		{"trailer ok", 200, headers("Content-Type: application/grpc"), "x", End{Complete: true, Trailer: headers("Grpc-Status: 0")}, stoplog.OutcomeConfirmed, stoplog.HealthGood, ""},
		{"trailers only", 200, headers("Content-Type: application/grpc", "Grpc-Status: 3"), "", End{Complete: true}, stoplog.OutcomeRejected, stoplog.HealthNeutral, ""},
		{"gRPC exhausted", 200, nil, "", End{Complete: true, Trailer: headers("Grpc-Status: 8")}, stoplog.OutcomeRejected, stoplog.HealthThrottled, ""},
		{"gRPC without status", 200, headers("Content-Type: application/grpc+proto"), "", End{Complete: true}, stoplog.OutcomeUnknown, stoplog.HealthBad, "grpc_status_absent"},
		{"credential", 401, nil, "", End{Complete: true}, stoplog.OutcomeRejected, stoplog.HealthNeutral, FlagAuth},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := tc.header
			if h == nil {
				h = http.Header{}
			}
			o := write(t).Observe(tc.status, h)
			o.Write([]byte(tc.body))
			res := o.End(tc.end)
			if res.Outcome != tc.outcome || res.Health != tc.health || strings.Join(res.Flags, " ") != tc.flags {
				t.Errorf("got %v %v %v", res.Outcome, res.Health, res.Flags)
			}
		})
	}
}

func TestNoAnswer(t *testing.T) {
	for _, tc := range []struct {
		name              string
		sent              string
		timeout, canceled bool
		outcome           stoplog.Outcome
		health            stoplog.Health
		write, key, read  bool // retryable
	}{
		{"refused", SentNone, false, false, stoplog.OutcomeNotSent, stoplog.HealthBad, true, true, true},
		{"dial timed out", SentNone, true, false, stoplog.OutcomeNotSent, stoplog.HealthBad, true, true, true},
		{"client left before", SentNone, false, true, stoplog.OutcomeNotSent, stoplog.HealthNeutral, false, false, false},
		// elizaOS/eliza#22382, openclaw/openclaw#22780: accepted, and the answer was lost.
		{"lost answer", SentFull, false, false, stoplog.OutcomeUnknown, stoplog.HealthBad, false, true, true},
		{"part of it left", SentPartial, false, false, stoplog.OutcomeUnknown, stoplog.HealthBad, false, true, true},
		{"timed out", SentFull, true, false, stoplog.OutcomeUnknown, stoplog.HealthBad, false, true, true},
		// tsouza/cerberus#738: clients that leave must not open the breaker.
		{"client left", SentFull, false, true, stoplog.OutcomeUnknown, stoplog.HealthNeutral, false, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for name, x := range map[string]struct {
				rd   *Reading
				want bool
			}{"write": {write(t), tc.write}, "keyed": {keyed(t), tc.key}, "read": {read(t), tc.read}} {
				res := x.rd.NoAnswer(tc.sent, tc.timeout, tc.canceled)
				if res.Outcome != tc.outcome || res.Health != tc.health || x.rd.Retryable(res, 0) != x.want {
					t.Errorf("%s: got %v %v retry %v", name, res.Outcome, res.Health, x.rd.Retryable(res, 0))
				}
			}
		})
	}
	rd := classify(t, compile(t, testSpec()), request("POST /chat", `{"model":"m"}`, asJSON))
	if u := rd.NoAnswer(SentNone, false, false).Usage; !u.Known || u.Total() != 0 {
		t.Errorf("nothing was sent and %+v charged", u)
	}
	if u := rd.NoAnswer(SentFull, true, false).Usage; u.Known {
		t.Errorf("a lost call must keep its reservation, got %+v", u)
	}
	if c := rd.NoAnswer(SentFull, true, false).Class; c != "model/m" {
		t.Errorf("one slow model counts against %q", c)
	}
}

// TestBreakerClass: a deterministic 500 of one operation stays with it; a gateway's does not (Portkey-AI/gateway#1289).
func TestBreakerClass(t *testing.T) {
	rd := write(t)
	for status, want := range map[int]string{500: "issue.comment", 502: "", 503: "", 504: "", 200: "issue.comment", 429: "issue.comment"} {
		if got := rd.Observe(status, http.Header{}).End(End{Complete: true}).Class; got != want {
			t.Errorf("%d: class %q, want %q", status, got, want)
		}
	}
	if got := rd.Observe(200, http.Header{}).End(End{}).Class; got != "" {
		t.Errorf("cut: class %q", got)
	}
	long := classify(t, compile(t, testSpec()), request("POST /chat", `{"model":"`+strings.Repeat("m\\n", 100)+`"}`, asJSON))
	if c := long.BreakerClass(); len(c) > 80 || strings.Contains(c, "\n") {
		t.Errorf("class %q", c)
	}
}

func TestWaits(t *testing.T) {
	s := testSpec()
	s.Cool = []Source{
		{Header: "X-RateLimit-Reset", Transforms: []string{"epoch"}}, {JSON: "/error/details/*/retryDelay", Transforms: []string{"duration"}},
	}
	rd := classify(t, compile(t, s), request("GET /x", ""))
	const date = "Date: Tue, 01 Dec 2026 00:00:00 GMT"
	for _, tc := range []struct {
		name   string
		status int
		header http.Header
		body   string
		cool   time.Duration
		after  time.Duration
	}{
		{"seconds", 429, headers("Retry-After: 7"), "", 7 * time.Second, 7 * time.Second},
		{"fraction", 429, headers("Retry-After: 0.5"), "", 500 * time.Millisecond, 500 * time.Millisecond},
		{"date by the answer's clock", 503, headers(date, "Retry-After: Tue, 01 Dec 2026 00:00:30 GMT"), "", 30 * time.Second, 30 * time.Second},
		{"date in the past", 503, headers(date, "Retry-After: Mon, 30 Nov 2026 00:00:30 GMT"), "", 0, 0},
		{"millis win", 429, headers("Retry-After: 2", "Retry-After-Ms: 1500"), "", 1500 * time.Millisecond, 1500 * time.Millisecond},
		{"absurd", 429, headers("Retry-After: 1e30"), "", 24 * time.Hour, 24 * time.Hour},
		{"negative", 429, headers("Retry-After: -5"), "", 0, 0},
		{"nonsense", 429, headers("Retry-After: soon"), "", 0, 0},
		{"not a number", 429, headers("Retry-After: NaN"), "", 0, 0},
		{"reset of the window", 429, headers(date, "X-Ratelimit-Reset: 1796083260"), "", 60 * time.Second, 0},
		{"in the body", 429, headers("Retry-After: 1"), `{"error":{"details":[{"a":1},{"retryDelay":"34.5s"}]}}`, 34500 * time.Millisecond, time.Second},
		{"reset of a refusal that is no limit", 404, headers(date, "X-Ratelimit-Reset: 1796083260"), "", 0, 0},
		{"success", 200, headers("Retry-After: 9"), "", 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.header.Set("Content-Type", "application/json")
			o := rd.Observe(tc.status, tc.header)
			o.Write([]byte(tc.body))
			res := o.End(End{Complete: true})
			if res.Cool != tc.cool || res.RetryAfter != tc.after {
				t.Errorf("cool %v, retry after %v", res.Cool, res.RetryAfter)
			}
		})
	}
	res := rd.Observe(503, headers("X-Should-Retry: false")).End(End{Complete: true})
	if !res.Final || rd.Retryable(res, 503) {
		t.Error("x-should-retry: false was not heard")
	}
}

// slackLike has rules as a vendor needs that refuses with status 200.
func slackLike() Spec {
	s := testSpec()
	ok := Source{JSON: "/ok"}
	s.Answers = []AnswerRule{
		{Status: []string{"2xx"}, When: []Condition{{Source: ok, Equals: []string{"true"}}}, Outcome: stoplog.OutcomeConfirmed, Health: stoplog.HealthGood},
		{Status: []string{"2xx"}, When: []Condition{{Source: ok, Equals: []string{"false"}}}, Outcome: stoplog.OutcomeRejected, Health: stoplog.HealthNeutral, Final: true},
		{Status: []string{"2xx"}, Outcome: stoplog.OutcomeUnknown, Health: stoplog.HealthBad, Flag: "no_verdict"},
	}
	return s
}

// TestRules: slackapi/python-slack-sdk#1333. What could not be read is never taken for what was not there.
func TestRules(t *testing.T) {
	rd := classify(t, compile(t, slackLike()), request("POST /messages", `{"channel":"C1"}`, asJSON))
	large := strings.Repeat(`{"text":"hello"},`, 1<<17)
	for _, tc := range []struct {
		name, body, coding string
		end                End
		outcome            stoplog.Outcome
		flags              string
	}{
		{"yes", `{"ok":true,"ts":"1.2"}`, "", End{Complete: true}, stoplog.OutcomeConfirmed, ""},
		{"no", `{"ok":false,"error":"channel_not_found"}`, "", End{Complete: true}, stoplog.OutcomeRejected, ""},
		{"neither", `{}`, "", End{Complete: true}, stoplog.OutcomeUnknown, "no_verdict"},
		{"HTML", `<html>ok</html>`, "", End{Complete: true}, stoplog.OutcomeUnknown, "no_verdict"},
		{"nothing", ``, "", End{Complete: true}, stoplog.OutcomeUnknown, "no_verdict"},
		{"text instead of a truth", `{"ok":"false"}`, "", End{Complete: true}, stoplog.OutcomeRejected, ""},
		{"compressed", gzipped(`{"ok":false}`), "gzip", End{Complete: true}, stoplog.OutcomeRejected, ""},
		{"verdict first in a large answer", `{"ok":true,"messages":[` + large + `{}]}`, "", End{Complete: true}, stoplog.OutcomeConfirmed, ""},
		{"verdict behind what is kept", `{"messages":[` + large + `{}],"ok":true}`, "", End{Complete: true}, stoplog.OutcomeUnknown, FlagUnread},
		{"coding that is not read", "\x1b\x00", "br", End{Complete: true}, stoplog.OutcomeUnknown, FlagUnread},
		{"false label", `{"ok":true}`, "gzip", End{Complete: true}, stoplog.OutcomeUnknown, FlagUnread},
		{"client left before the verdict", `{"messages":[`, "", End{Abandoned: true}, stoplog.OutcomeUnknown, FlagAbandoned + " " + FlagUnread},
		{"client left after the verdict", `{"ok":true,"messages":[`, "", End{Abandoned: true}, stoplog.OutcomeConfirmed, FlagAbandoned},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := headers("Content-Type: application/json")
			if tc.coding != "" {
				h.Set("Content-Encoding", tc.coding)
			}
			o := rd.Observe(200, h)
			for b := range slices.Chunk([]byte(tc.body), 1000) {
				o.Write(b)
			}
			res := o.End(tc.end)
			if res.Outcome != tc.outcome || strings.Join(res.Flags, " ") != tc.flags {
				t.Errorf("got %v %v, want %v %q", res.Outcome, res.Flags, tc.outcome, tc.flags)
			}
			if cap(o.doc) > 2*maxFrame {
				t.Errorf("kept %d bytes", cap(o.doc))
			}
		})
	}
}
