package app_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/internal/fakevendor"
	"github.com/stoplog/stoplog/receipts"
)

// The side that gave up is told apart (golang/go#20071; bnema/gordon#209): a write whose agent leaves is carried to its end.
func TestWriteOutlivesItsAgent(t *testing.T) {
	var applied atomic.Int64
	arrived := make(chan struct{})
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		drain(r)
		close(arrived)
		time.Sleep(50 * time.Millisecond)
		if r.Context().Err() == nil {
			applied.Add(1)
		}
		io.WriteString(w, `{"id":"1"}`)
	})
	s := start(t, []dest{{name: "generic", url: url}})
	ctx, leave := context.WithCancel(t.Context())
	go func() { <-arrived; leave() }()
	doCtx(t, ctx, "POST", s.URL("generic")+"/items", `{"a":1}`)
	eventually(t, "the outcome is recorded", func() bool {
		rs := s.find(func(r *receipts.Receipt) bool { return r.Type == receipts.TypeOpOutcome })
		return len(rs) == 1 && rs[0].Outcome.Outcome == stoplog.OutcomeConfirmed && rs[0].Outcome.Health == stoplog.HealthGood
	})
	if n := applied.Load(); n != 1 {
		t.Errorf("applied %d times, want 1", n)
	}
}

// A lost answer is unknown, never failed, and the same write is not sent again blindly (probot/probot#921,
// slackapi/slack-api-specs#10; golang/go#16036).
func TestLostReplyIsNotRepeated(t *testing.T) {
	s := start(t, []dest{{name: "slack", attempts: 3}, {name: "github", attempts: 3}})
	for _, v := range []string{"slack", "github"} {
		if err := s.fleet.AddFault(fakevendor.Fault{Vendor: v, Method: "POST", Kind: fakevendor.CutAfterEffect, Times: 1}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		vendor, path, body string
		header             []string
	}{
		{"slack", "/api/chat.postMessage", `{"channel":"C0GENERAL","text":"hello"}`, nil},
		{"github", "/repos/o/r/issues/1/comments", `{"body":"hello"}`, nil},
	} {
		first := s.post(c.vendor, c.path, c.body, c.header...)
		if !strings.Contains(first.body, "outcome_unknown") {
			t.Errorf("%s: %d %s, want outcome_unknown", c.vendor, first.status, first.body)
		}
		for range 3 {
			if again := s.post(c.vendor, c.path, c.body, c.header...); !strings.Contains(again.body, "outcome_unknown") {
				t.Errorf("%s again: %d %s, want outcome_unknown", c.vendor, again.status, again.body)
			}
		}
		if n := len(s.fleet.Effects(c.vendor)); n != 1 {
			t.Errorf("%s: %d effects, want 1", c.vendor, n)
		}
		if n := len(s.fleet.Requests(c.vendor)); n != 1 {
			t.Errorf("%s: %d requests on the wire, want 1", c.vendor, n)
		}
	}
}

// Where the vendor knows the key, a lost reply is asked for again under the same key: two transmissions, one effect.
func TestLostReplyUnderAKey(t *testing.T) {
	s := start(t, []dest{{name: "stripe", attempts: 3}})
	if err := s.fleet.AddFault(fakevendor.Fault{Vendor: "stripe", Method: "POST", Kind: fakevendor.CutAfterEffect, Times: 1}); err != nil {
		t.Fatal(err)
	}
	a := s.post("stripe", "/v1/charges", "amount=2000&currency=usd&source=tok_visa", "Content-Type", "application/x-www-form-urlencoded", "Idempotency-Key", "k1")
	if a.status != 200 || len(s.fleet.Effects("stripe")) != 1 || len(s.fleet.Requests("stripe")) != 2 {
		t.Errorf("%d %s: %d effects by %d requests, want one by two", a.status, a.body, len(s.fleet.Effects("stripe")), len(s.fleet.Requests("stripe")))
	}
	eventually(t, "both attempts are recorded", func() bool {
		return len(s.find(func(r *receipts.Receipt) bool { return r.Type == receipts.TypeDispatching })) == 2
	})
}

// One key names one effect (stripe/stripe-ruby#503, stripe/stripe-java#389): other content is refused with both digests in the
// receipt, the same content gets the recorded answer.
func TestIdempotencyKey(t *testing.T) {
	s := start(t, []dest{{name: "generic"}})
	key := []string{"Idempotency-Key", "order-17"}
	first := s.post("generic", "/items", `{"amount":9007199254740992}`, key...)
	if first.status/100 != 2 {
		t.Fatalf("first: %d %s", first.status, first.body)
	}
	// Numbers above 2^53 that many canonical forms merge (cyberphone/json-canonicalization#20) are different bytes.
	other := s.post("generic", "/items", `{"amount":9007199254740993}`, key...)
	if p := other.problem(t); other.status != 422 || p.Reason != "idempotency_mismatch" || p.Sent != "none" {
		t.Errorf("other content: %d %+v", other.status, p)
	}
	again := s.post("generic", "/items", `{"amount":9007199254740992}`, key...)
	if again.body != first.body || again.status != first.status || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("same content: %d %s, want the recorded answer %s", again.status, again.body, first.body)
	}
	if n := len(s.fleet.Requests("generic")); n != 1 {
		t.Errorf("%d requests at the vendor, want 1", n)
	}
	eventually(t, "a conflict with both digests", func() bool {
		rs := s.find(func(r *receipts.Receipt) bool { return r.Type == receipts.TypeOpConflict })
		return len(rs) == 1 && rs[0].Note["digest_known"] != "" && rs[0].Note["digest_now"] != "" && rs[0].Note["digest_known"] != rs[0].Note["digest_now"]
	})
}

// Two requests with one key at once: one dispatch (ietf-wg-httpapi/idempotency#11).
func TestSameKeyAtOnce(t *testing.T) {
	var n atomic.Int64
	release := make(chan struct{})
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		drain(r)
		n.Add(1)
		<-release
		io.WriteString(w, `{}`)
	})
	s := start(t, []dest{{name: "generic", url: url}})
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := map[string]int{}
	for range 8 {
		wg.Go(func() {
			a := s.post("generic", "/items", `{"a":1}`, "Idempotency-Key", "k")
			mu.Lock()
			defer mu.Unlock()
			if a.status == 409 {
				got["in_progress"]++
				if len(got) == 1 && got["in_progress"] == 7 {
					close(release)
				}
			} else {
				got[http.StatusText(a.status)]++
			}
		})
	}
	wg.Wait()
	if n.Load() != 1 || got["in_progress"] != 7 || got["OK"] != 1 {
		t.Errorf("%d dispatches, answers %v; want one dispatch", n.Load(), got)
	}
}

// Held is not dropped: the release sends the very bytes that were held, through every stage anew.
func TestHoldAndRelease(t *testing.T) {
	s := start(t, []dest{{name: "slack"}})
	s.raise("fleet", stoplog.L1)
	body := `{ "channel" : "C0GENERAL", "text":"caf\u00e9 \ud83d\ude00" }`
	held := s.post("slack", "/api/chat.postMessage", body)
	if held.status != 200 || !strings.Contains(held.body, `"ok":false`) || !strings.Contains(held.body, `"disposition":"held"`) {
		t.Fatalf("held: %d %s", held.status, held.body)
	}
	if a := s.post("slack", "/api/chat.postMessage", body); !strings.Contains(a.body, `"reason":"held"`) {
		t.Errorf("the same once more: %s, want the same hold", a.body)
	}
	if n := len(s.fleet.Requests("slack")); n != 0 {
		t.Fatalf("%d requests at the vendor while held", n)
	}
	op := s.operator()
	holds, err := op.Holds(t.Context())
	if err != nil || len(holds) != 1 {
		t.Fatalf("holds: %v, %v; want one", holds, err)
	}
	// Released while frozen, it is judged again and stays.
	if r := s.release(holds[0].ID); r.Sent || r.Verdict != "hold" {
		t.Errorf("released under L1: %+v; want still held", r)
	}
	s.lower("fleet", stoplog.L0)
	if r := s.release(holds[0].ID); !r.Sent || r.Outcome != "confirmed" {
		t.Fatalf("release: %+v", r)
	}
	e := s.fleet.Effects("slack")
	if len(e) != 1 || string(e[0].Body) != body {
		t.Errorf("effects %+v, want the held bytes", e)
	}
	if left, err := op.Holds(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("holds after release: %v, %v", left, err)
	}
}

// A stop reaches what is already on its way (elastic/kibana#257947, kestra-io/kestra#2230).
func TestStopReachesWhatWaits(t *testing.T) {
	t.Run("in back-off", func(t *testing.T) {
		var n atomic.Int64
		var s *sidecar
		url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
			drain(r)
			if n.Add(1) == 1 {
				s.raise("fleet", stoplog.L3)
			}
			w.WriteHeader(503)
		})
		s = start(t, []dest{{name: "generic", url: url, attempts: 3}})
		s.do("GET", s.URL("generic")+"/items/1", "")
		if n.Load() != 1 {
			t.Errorf("%d attempts, want none after the stop", n.Load())
		}
	})
	t.Run("waiting for a token", func(t *testing.T) {
		var n atomic.Int64
		url := upstream(t, func(w http.ResponseWriter, r *http.Request) { drain(r); n.Add(1) })
		s := start(t, []dest{{name: "generic", url: url, requests: "{capacity: 1, refill_tokens: 1, refill_interval: 0.2s}"}})
		s.do("GET", s.URL("generic")+"/items/1", "")
		done := make(chan answer)
		go func() { done <- s.do("GET", s.URL("generic")+"/items/2", "") }()
		time.Sleep(20 * time.Millisecond) // it waits for the next token now, or it is stopped at its claim: both must refuse
		s.raise("tenant/acme", stoplog.L3)
		if a := <-done; a.status == 200 || n.Load() != 1 {
			t.Errorf("%d, %d requests at the vendor; want it stopped", a.status, n.Load())
		}
	})
	t.Run("a stream is cut", func(t *testing.T) {
		url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
			drain(r)
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, frame(1))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		s := start(t, []dest{{name: "openai", url: url}})
		done := make(chan answer)
		go func() { done <- s.post("openai", "/v1/chat/completions", chat) }()
		eventually(t, "the stream runs", func() bool { return s.Flights() == 1 })
		time.Sleep(20 * time.Millisecond)
		s.raise("fleet", stoplog.L3)
		select {
		case a := <-done:
			if a.err == nil && a.status == 200 {
				t.Errorf("the stream ended cleanly: %q", a.body)
			}
		case <-time.After(3 * time.Second):
			t.Fatal("the stream goes on at L3")
		}
	})
}

// A stop hits its scope and no other (reddb-io/red-skills#2472).
func TestStopHitsItsScope(t *testing.T) {
	s := start(t, []dest{{name: "slack"}, {name: "github"}})
	s.raise("destination/slack", stoplog.L2)
	if a := s.post("slack", "/api/chat.postMessage", `{"channel":"C0GENERAL","text":"x"}`); !strings.Contains(a.body, "held") {
		t.Errorf("slack: %s, want held", a.body)
	}
	if a := s.post("github", "/repos/o/r/issues", `{"title":"x"}`); a.status != 201 {
		t.Errorf("github: %d %s, want 201", a.status, a.body)
	}
	s.raise("tenant/other", stoplog.L3)
	if a := s.do("GET", s.URL("github")+"/repos/o/r/issues", ""); a.status != 200 {
		t.Errorf("a stop of another tenant hits us: %d", a.status)
	}
}

// Levels by class: messages from L1, writes from L2, everything at L3; the refusal says so and is not retried.
func TestLevelsByClass(t *testing.T) {
	s := start(t, []dest{{name: "playground"}})
	message := func() answer {
		return s.post("playground", "/messages", `{"to":"ada@example.com","text":"x"}`, "Stoplog-Operation", unique())
	}
	write := func() answer { return s.post("playground", "/records", `{"name":"x"}`, "Stoplog-Operation", unique()) }
	model := func() answer { return s.post("playground", "/chat/completions", call) }
	read := func() answer { return s.do("GET", s.URL("playground")+"/records", "") }
	for level, want := range []string{"sent sent sent sent", "held sent sent sent", "held parked sent sent", "held parked denied denied"} {
		if level > 0 {
			s.raise("fleet", stoplog.Level(level))
		}
		var got []string
		for _, f := range []func() answer{message, write, model, read} {
			a := f()
			if a.status/100 == 2 {
				got = append(got, "sent")
				continue
			}
			got = append(got, a.problem(t).Disposition)
			if a.status != 403 || a.header.Get("X-Should-Retry") != "false" || a.header.Get("Retry-After") != "" {
				t.Errorf("L%d: %d %v, want a 403 that nobody retries", level, a.status, a.header)
			}
		}
		if g := strings.Join(got, " "); g != want {
			t.Errorf("L%d: %s, want %s", level, g, want)
		}
	}
}

var counter atomic.Int64

func unique() string { return fmt.Sprintf("%q", fmt.Sprint("t", counter.Add(1))) }
