package app_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/internal/app"
	"github.com/stoplog/stoplog/internal/fakevendor"
	"github.com/stoplog/stoplog/receipts"
)

// A client that leaves a stream is no crash (golang/go#56228, #28239; unkeyed/unkey#5915): the log is silent, there is one
// terminal receipt, the only seat is free again, and the vendor's connection is given up.
func TestLeavingIsNoCrash(t *testing.T) {
	var log syncBuffer
	ended := make(chan struct{}, 1)
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/stream" {
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 2 {
			io.WriteString(w, frame(i))
			w.(http.Flusher).Flush()
		}
		<-r.Context().Done()
		ended <- struct{}{}
	})
	s := start(t, []dest{{name: "generic", url: url, seats: 1}}, withNeighbour(t, "other", "generic"), // logs at level debug
		withOptions(func(o *app.Options) { o.LogOut = &log }))
	ctx, leave := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, "GET", s.URL("generic")+"/stream", nil)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	leave()
	resp.Body.Close()
	<-ended
	r := s.ended("generic", 1)[0]
	if r.Outcome.Error != "client_gone" || r.Outcome.Health != stoplog.HealthNeutral {
		t.Errorf("outcome %+v, want the client's leaving, which says nothing about the vendor", r.Outcome)
	}
	if a := s.do("GET", s.URL("generic")+"/next", ""); a.status != 200 {
		t.Errorf("the next call: %d %s", a.status, a.body)
	}
	for _, word := range []string{"panic", "goroutine", "ERROR", "abort"} {
		if strings.Contains(log.String(), word) {
			t.Errorf("the log says %q:\n%s", word, log.String())
		}
	}
}

// An interim answer is not the result (golang/go#26088, #53164): one final 200 for the agent, the receipt and the breaker.
func TestInterimAnswerIsNotTheResult(t *testing.T) {
	go200 := make(chan struct{})
	url := script(t, func(_ int, c net.Conn, r *bufio.Reader) {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		drain(req)
		io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n")
		<-go200
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 10\r\nConnection: close\r\n\r\n"+`{"id":"i1"}`[:10])
	})
	s := start(t, []dest{{name: "generic", url: url, breaker: once}})
	for _, method := range []string{"GET", "POST"} {
		done := make(chan answer, 1)
		body := ""
		if method == "POST" {
			body = `{"a":1}`
		}
		go func() { done <- s.do(method, s.URL("generic")+"/items", body) }()
		select {
		case a := <-done:
			t.Fatalf("%s: answered by the interim answer: %d", method, a.status)
		case go200 <- struct{}{}:
		}
		if a := <-done; a.status != 200 {
			t.Errorf("%s: %d %s", method, a.status, a.body)
		}
	}
	for _, r := range s.ended("generic", 2) {
		if r.Outcome.Status != 200 || r.Outcome.Outcome != stoplog.OutcomeConfirmed || r.Outcome.Health != stoplog.HealthGood {
			t.Errorf("recorded %+v, want the final 200", r.Outcome)
		}
	}
}

// A broken transfer is an unknown outcome that the breaker counts, whatever its status line said (Portkey-AI/gateway#267).
func TestTruncatedAnswersOpenTheBreaker(t *testing.T) {
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		drain(r)
		w.Header().Set("Content-Length", "500")
		io.WriteString(w, strings.Repeat("x", 100))
	})
	s := start(t, []dest{{name: "generic", url: url, breaker: once}})
	for range 3 {
		s.do("GET", s.URL("generic")+"/items/1", "")
		s.post("generic", "/items", `{"a":1}`, "Stoplog-Operation", unique())
	}
	for _, r := range s.ended("generic", 6) {
		if r.Outcome.Outcome != stoplog.OutcomeUnknown || r.Outcome.Health != stoplog.HealthBad || !has(r.Flags, "truncated") {
			t.Errorf("%s: %+v %v, want an unknown, truncated end", r.Method, r.Outcome, r.Flags)
		}
	}
	if a := s.do("GET", s.URL("generic")+"/items/1", ""); a.problem(t).Reason != "breaker_open" {
		t.Errorf("%d %s, want breaker_open", a.status, a.body)
	}
}

// A write whose agent has left and whose answer is lost is unknown: neither failed nor applied (golang/go#20071, #18838).
func TestAgentLeftAndAnswerLost(t *testing.T) {
	arrived, left := make(chan struct{}), make(chan struct{})
	url := upstream(t, func(_ http.ResponseWriter, r *http.Request) {
		drain(r)
		close(arrived)
		<-left
		panic(http.ErrAbortHandler)
	})
	s := start(t, []dest{{name: "stripe", url: url, breaker: once}})
	const body = "amount=2000&currency=usd&source=tok_visa"
	form := []string{"Content-Type", "application/x-www-form-urlencoded"}
	out := s.leaving(arrived, "POST", s.URL("stripe")+"/v1/charges", body, form...)
	<-out
	close(left)
	var state string
	eventually(t, "the end is recorded", func() bool {
		rs := s.find(func(r *receipts.Receipt) bool { return r.Type == receipts.TypeOpOutcome })
		if len(rs) == 1 {
			state = rs[0].State
		}
		return len(rs) == 1
	})
	if state != "unknown" {
		t.Errorf("the operation is %s, want unknown", state)
	}
	if a := s.do("POST", s.URL("stripe")+"/v1/charges", body, form...); a.problem(t).Reason != "outcome_unknown" {
		t.Errorf("the same charge again: %d %s, want outcome_unknown", a.status, a.body)
	}
}

// Slack refuses with status 200 (slackapi/python-slack-sdk#1333, vellum-ai/vellum-assistant#42857): what its body says decides
// for the record and the breaker alike.
func TestStatus200IsNotSuccess(t *testing.T) {
	var body, after atomic.Value
	body.Store("")
	after.Store("")
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		drain(r)
		if v := after.Load().(string); v != "" {
			w.Header().Set("Retry-After", v)
		}
		if strings.HasPrefix(body.Load().(string), "<") {
			w.Header().Set("Content-Type", "text/html")
		} else {
			w.Header().Set("Content-Type", "application/json")
		}
		io.WriteString(w, body.Load().(string))
	})
	s := start(t, []dest{{name: "slack", url: url}})
	send := func() answer {
		return s.post("slack", "/api/chat.postMessage", `{"channel":"C0GENERAL","text":"x"}`, "Stoplog-Operation", unique())
	}
	for i, c := range []struct {
		body, after string
		outcome     stoplog.Outcome
		health      stoplog.Health
	}{
		{`{"ok":true,"ts":"1.2"}`, "", stoplog.OutcomeConfirmed, stoplog.HealthGood},
		{`{"ok":false,"error":"channel_not_found"}`, "", stoplog.OutcomeRejected, stoplog.HealthNeutral},
		{`{}`, "", stoplog.OutcomeUnknown, stoplog.HealthBad},
		{`<html>gateway</html>`, "", stoplog.OutcomeUnknown, stoplog.HealthBad},
		{`{"ok":false,"error":"ratelimited"}`, "30", stoplog.OutcomeRejected, stoplog.HealthThrottled},
	} {
		body.Store(c.body)
		after.Store(c.after)
		if a := send(); a.status != 200 || a.body != c.body {
			t.Errorf("%s: the agent got %d %s", c.body, a.status, a.body)
		}
		rs := s.ended("slack", i+1)
		if o := rs[i].Outcome; o.Outcome != c.outcome || o.Health != c.health {
			t.Errorf("%s: recorded as %s, %s; want %s, %s", c.body, o.Outcome, o.Health, c.outcome, c.health)
		}
	}
	if a := send(); !strings.Contains(a.body, `"reason":"rate_limited"`) { // it cools down
		t.Errorf("after ratelimited: %s, want rate_limited", a.body)
	}
}

// A tool that ran and failed is done; a broken server is unknown; a refused connection was never asked
// (joshrotenberg/mcp-proxy#222). Only the last may be tried again.
func TestToolFailures(t *testing.T) {
	var n atomic.Int64
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(bodyText(r), "half-way") {
			io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"isError":true,"content":[]}}`)
			return
		}
		io.WriteString(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"internal"}}`)
	})
	away, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	away.Close()
	s := start(t, []dest{
		{name: "mcp", url: url, attempts: 3}, {name: "away", profile: "mcp", url: "http://" + away.Addr().String(), attempts: 3, total: "5s"},
	})
	tool := func(d, name string) answer {
		return s.post(d, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+name+`","arguments":{}}}`, "Mcp-Session-Id", "S")
	}
	if a := tool("mcp", "half-way"); a.status != 200 || !strings.Contains(a.body, `"isError":true`) || n.Load() != 1 {
		t.Errorf("a failed tool: %d %s after %d calls", a.status, a.body, n.Load())
	}
	if a := tool("mcp", "broken"); a.status != 200 || n.Load() != 2 {
		t.Errorf("a broken server: %d %s after %d calls", a.status, a.body, n.Load())
	}
	if a := tool("mcp", "broken"); !strings.Contains(a.body, "outcome_unknown") || n.Load() != 2 {
		t.Errorf("the same call again: %s after %d calls, want outcome_unknown", a.body, n.Load())
	}
	rs := s.ended("mcp", 2)
	if rs[0].Outcome.Outcome != stoplog.OutcomeConfirmed || !has(rs[0].Flags, "tool_error") || rs[1].Outcome.Outcome != stoplog.OutcomeUnknown {
		t.Errorf("recorded as %s %v and %s", rs[0].Outcome.Outcome, rs[0].Flags, rs[1].Outcome.Outcome)
	}
	if a := tool("away", "any"); !strings.Contains(a.body, `"sent":"none"`) {
		t.Errorf("nobody there: %d %s", a.status, a.body)
	}
	tries := s.find(func(r *receipts.Receipt) bool { return r.Type == receipts.TypeDispatching && r.Destination == "away" })
	if len(tries) != 3 {
		t.Errorf("%d attempts at a refused connection, want 3", len(tries))
	}
}

// A lost MCP session is the agent's to mend (danny-avila/LibreChat#11868, modelcontextprotocol/rust-sdk#743): the 404 passes
// as it is, the call was definitely not carried out, and nothing is sent again.
func TestLostSession(t *testing.T) {
	s := start(t, []dest{{name: "mcp", attempts: 3}})
	a := s.post("mcp", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add_note","arguments":{"text":"x"}}}`, "Mcp-Session-Id", "gone")
	if a.status != 404 || !strings.Contains(a.body, "Session not found") || a.header.Get("Stoplog-Decision") != "allow" {
		t.Errorf("call: %d %s, want the server's own 404", a.status, a.body)
	}
	a = s.do("GET", s.URL("mcp")+"/mcp", "", "Mcp-Session-Id", "gone", "Accept", "text/event-stream")
	if a.status != 404 || !strings.Contains(a.body, "Session not found") {
		t.Errorf("stream: %d %s, want the server's own 404", a.status, a.body)
	}
	got := s.fleet.Requests("mcp")
	if len(got) != 2 {
		t.Fatalf("%d requests at the server, want 2", len(got))
	}
	for _, r := range got {
		if r.Header.Get("Mcp-Session-Id") != "gone" {
			t.Errorf("%s %s carried the session %q", r.Method, r.Target, r.Header.Get("Mcp-Session-Id"))
		}
	}
	rs := s.find(func(r *receipts.Receipt) bool { return r.Type == receipts.TypeOpOutcome })
	if len(rs) != 1 || rs[0].Outcome.Outcome != stoplog.OutcomeRejected || rs[0].Outcome.Health != stoplog.HealthNeutral {
		t.Errorf("recorded %+v, want one rejected call", rs)
	}
}

// A keyed write on a warm connection that the vendor closes is sent once: http.Transport would send it again by itself
// (golang/go#16036, cloudflare/pingora#979). What the ledger counts is what was on the wire.
func TestWireAttemptsAreLedgerAttempts(t *testing.T) {
	s := start(t, []dest{{name: "generic", attempts: 3}})
	key := func(k string) answer { return s.post("generic", "/items", `{"a":1}`, "Idempotency-Key", k) }
	if a := key("warm"); a.status/100 != 2 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if err := s.fleet.AddFault(fakevendor.Fault{Vendor: "generic", Kind: fakevendor.CutBeforeEffect, Times: 1}); err != nil {
		t.Fatal(err)
	}
	if a := key("cut"); a.problem(t).Reason != "outcome_unknown" {
		t.Errorf("%d %s, want outcome_unknown", a.status, a.body)
	}
	booked := s.find(func(r *receipts.Receipt) bool { return r.Type == receipts.TypeDispatching })
	if n := len(s.fleet.Requests("generic")); n != 2 || len(booked) != n {
		t.Errorf("%d requests on the wire, %d in the ledger; want 2 and 2", n, len(booked))
	}
}

// Nothing is enforced while observing, also not a stop that comes later.
func TestObservedStreamIsNotCut(t *testing.T) {
	raised := make(chan struct{})
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		drain(r)
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, frame(1))
		w.(http.Flusher).Flush()
		<-raised
		select {
		case <-r.Context().Done(): // cut
		case <-time.After(50 * time.Millisecond):
		}
		io.WriteString(w, "data: [DONE]\n\n")
	})
	s := start(t, []dest{{name: "openai", url: url}}, withOptions(func(o *app.Options) { o.Observe = true }))
	resp, err := client.Post(s.URL("openai")+"/v1/chat/completions", "application/json", strings.NewReader(chat))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	s.raise("fleet", stoplog.L3)
	close(raised)
	b, err := io.ReadAll(resp.Body)
	if err != nil || !strings.HasSuffix(string(b), "data: [DONE]\n\n") {
		t.Errorf("%v, %q; want the whole stream", err, b)
	}
}
