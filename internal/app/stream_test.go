package app_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/receipts"
)

const chat = `{"model":"gpt-5","stream":true,"messages":[{"role":"user","content":"hi"}]}`

func frame(i int) string {
	return fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"w%d \"}}]}\n\n", i)
}

// A frame passes as soon as it is written (golang/go#27816, #41642): the vendor writes the next one only after the agent has
// read the last.
func TestStreamPassesFrameByFrame(t *testing.T) {
	read := make(chan struct{})
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		drain(r)
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 10 {
			io.WriteString(w, frame(i))
			w.(http.Flusher).Flush()
			select {
			case <-read:
			case <-time.After(3 * time.Second):
				return
			}
		}
		io.WriteString(w, "data: [DONE]\n\n")
	})
	s := start(t, []dest{{name: "openai", url: url}})
	resp, err := client.Post(s.URL("openai")+"/v1/chat/completions", "application/json", strings.NewReader(chat))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	r := bufio.NewReader(resp.Body)
	for i := range 10 {
		line, err := r.ReadString('\n')
		if err != nil || !strings.Contains(line, fmt.Sprintf("w%d ", i)) {
			t.Fatalf("frame %d: %q, %v", i, line, err)
		}
		if line, _ = r.ReadString('\n'); line != "\n" {
			t.Fatalf("frame %d is not ended: %q", i, line)
		}
		read <- struct{}{}
	}
	rest, err := io.ReadAll(r)
	if err != nil || string(rest) != "data: [DONE]\n\n" {
		t.Errorf("end: %q, %v", rest, err)
	}
}

// A client that leaves in the middle is a normal exit (golang/go#56228; volcano-sh/agentcube#176): one terminal receipt, the
// seat is free, the budget is settled with the provider's own usage, no goroutine stays (BerriAI/litellm#33736).
func TestClientLeavesStream(t *testing.T) {
	proceed := make(chan struct{})
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		drain(r)
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 2 {
			io.WriteString(w, frame(i))
			w.(http.Flusher).Flush()
		}
		<-proceed
		for i := range 100 {
			io.WriteString(w, frame(i))
		}
		io.WriteString(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":4000,\"total_tokens\":4011}}\n\ndata: [DONE]\n\n")
	})
	s := start(t, []dest{{name: "openai", url: url, seats: 1}}, withConfig(`
price_tables: [{name: p, unknown_usd_micros_per_million: 1000000}]
budgets: [{name: tokens, model_tokens: 100000, window: DAY, keyed_by: [TENANT]}]
`))
	before := runtime.NumGoroutine()
	ctx, leave := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, "POST", s.URL("openai")+"/v1/chat/completions", strings.NewReader(chat))
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	leave()
	resp.Body.Close()
	close(proceed)
	terminal := func(r *receipts.Receipt) bool { return r.Type == receipts.TypeOutcome && r.Destination == "openai" }
	eventually(t, "the outcome is recorded", func() bool { return len(s.find(terminal)) == 1 })
	r := s.find(terminal)[0]
	if !has(r.Flags, "client_gone") {
		t.Errorf("flags %v, want client_gone", r.Flags)
	}
	if u := r.Outcome.Usage; u.Output != 4000 || u.Estimated {
		t.Errorf("usage %+v, want the provider's 4000 tokens", u)
	}
	if len(r.Budgets) != 1 || r.Budgets[0].Actual != 4011 {
		t.Errorf("budget %+v, want 4011 settled", r.Budgets)
	}
	if a := s.post("openai", "/v1/chat/completions", chat); a.status != 200 { // the only seat is free again
		t.Errorf("next call: %d %s", a.status, a.body)
	}
	eventually(t, "goroutines end", func() bool { client.CloseIdleConnections(); return runtime.NumGoroutine() <= before+6 })
}

// After the first byte no second attempt is made and nothing is glued on (NuGuardAI/nuguard#455; ag2ai/ag2#3216): one error
// event, no [DONE], an aborted body.
func TestStreamBreaksAfterPartOfIt(t *testing.T) {
	n := 0
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		n++
		drain(r)
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			io.WriteString(w, frame(i))
		}
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	s := start(t, []dest{{name: "openai", url: url, attempts: 3}})
	a := s.post("openai", "/v1/chat/completions", chat)
	if a.err == nil {
		t.Errorf("the body ended cleanly: %q", a.body)
	}
	if strings.Count(a.body, "event: error") != 1 || strings.Contains(a.body, "[DONE]") {
		t.Errorf("body %q, want one error event and no end mark", a.body)
	}
	if n != 1 {
		t.Errorf("%d requests at the vendor, want 1", n)
	}
	eventually(t, "a truncated outcome", func() bool {
		rs := s.find(func(r *receipts.Receipt) bool { return r.Type == receipts.TypeOutcome })
		return len(rs) == 1 && rs[0].Outcome.Outcome == stoplog.OutcomeUnknown && has(rs[0].Flags, "truncated") && rs[0].Outcome.Usage.Output > 0
	})
}

// A broken transfer is never a clean 200 (Portkey-AI/gateway#267).
func TestTruncatedAnswer(t *testing.T) {
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		drain(r)
		w.Header().Set("Content-Length", "500")
		io.WriteString(w, strings.Repeat("x", 100))
	})
	s := start(t, []dest{{name: "generic", url: url}})
	if a := s.do("GET", s.URL("generic")+"/items/1", ""); a.err == nil {
		t.Errorf("a cut read ended cleanly: %d %q", a.status, a.body)
	}
	a := s.post("generic", "/items", `{"a":1}`)
	if p := a.problem(t); a.status != 502 || p.Reason != "outcome_unknown" || p.Sent != "full" {
		t.Errorf("a cut write: %d %+v, want 502 outcome_unknown", a.status, p)
	}
}

// Trailers reach the agent and decide the outcome (golang/go#20437, #29031).
func TestTrailerDecides(t *testing.T) {
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		drain(r)
		io.WriteString(w, "x")
		w.(http.Flusher).Flush()
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "14")
	})
	s := start(t, []dest{{name: "generic", url: url}})
	resp, err := client.Get(s.URL("generic") + "/items/1")
	if err != nil {
		t.Fatal(err)
	}
	io.ReadAll(resp.Body)
	resp.Body.Close()
	if got := resp.Trailer.Get("Grpc-Status"); got != "14" {
		t.Errorf("trailer %q, want 14", got)
	}
	eventually(t, "counted as a failure", func() bool {
		rs := s.find(func(r *receipts.Receipt) bool { return r.Type == receipts.TypeOutcome })
		return len(rs) == 1 && rs[0].Outcome.Health == stoplog.HealthBad
	})
}

func has(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}
