package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/stoplog/stoplog/internal/fakevendor"
	"github.com/stoplog/stoplog/internal/operator"
)

func streamedModel(ctx context.Context, s *stage) error {
	began := time.Now()
	resp, err := s.open(ctx, http.MethodPost, "openai", "/v1/chat/completions",
		`{"model":"demo-model","stream":true,"stream_options":{"include_usage":true},"max_tokens":40,"messages":[{"role":"user","content":"Say something about brakes."}]}`)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	fmt.Fprint(s.Out, "   ")
	var first, last time.Duration
	pieces, usage := 0, int64(0)
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok || !bytes.HasPrefix(data, []byte("{")) {
			continue
		}
		var chunk struct {
			Choices []struct {
				Delta struct {
					Content string `json:"content"`
				} `json:"delta"`
			} `json:"choices"`
			Usage struct {
				Total int64 `json:"total_tokens"`
			} `json:"usage"`
		}
		err = json.Unmarshal(data, &chunk)
		if err != nil {
			return fmt.Errorf("read a frame: %w", err)
		}
		usage = max(usage, chunk.Usage.Total)
		if len(chunk.Choices) == 0 || chunk.Choices[0].Delta.Content == "" {
			continue
		}
		last = time.Since(began)
		if pieces == 0 {
			first = last
		}
		pieces++
		fmt.Fprint(s.Out, chunk.Choices[0].Delta.Content)
	}
	fmt.Fprintln(s.Out)
	if lines.Err() != nil {
		return lines.Err()
	}
	s.claim(resp.StatusCode == http.StatusOK && pieces > 3 && last > first+50*time.Millisecond,
		"%d pieces arrived one by one: the first after %d ms, the last after %d ms", pieces, first.Milliseconds(), last.Milliseconds())
	s.claim(usage > 0, "the provider's own usage was passed on untouched: %d tokens", usage)
	reqs := s.fleet.Requests("openai")
	s.claim(len(reqs) == 1 && reqs[0].Header.Get("Authorization") == "Bearer vendor-token-of-the-demo",
		"the credential was set by the sidecar; the agent has none")
	return nil
}

func heldMessage(ctx context.Context, s *stage) error {
	const message = `{"channel":"C0GENERAL", "text":"Your invoice 1001 is due. \u2014 Accounts"}`
	err := s.raise(ctx, "L1", "the invoice template looks wrong")
	if err != nil {
		return err
	}
	before := len(s.fleet.Requests("slack"))
	r, err := s.call(ctx, http.MethodPost, "slack", "/api/chat.postMessage", message)
	if err != nil {
		return err
	}
	s.say("The agent posts to Slack and hears: %d %s", r.status, clip(r.body))
	h, err := s.onlyHold(ctx)
	if err != nil {
		return err
	}
	s.claim(bytes.Contains(r.body, []byte(`"ok":false`)), "the answer cannot be taken for success: Slack's client throws on ok:false")
	s.claim(len(s.fleet.Requests("slack")) == before, "nothing reached Slack")
	s.claim(h.Hold.Verdict == "hold" && h.Hold.Bytes == int64(len(message)), "the message is kept, all %d bytes of it: %s", h.Hold.Bytes, h.ID)

	again, err := s.call(ctx, http.MethodPost, "slack", "/api/chat.postMessage", message)
	if err != nil {
		return err
	}
	_, err = s.onlyHold(ctx)
	s.claim(err == nil && bytes.Contains(again.body, []byte(`"ok":false`)), "the agent tries once more: joined to the same hold, still one copy")

	stopped, err := s.people.Release(ctx, h.ID)
	if err != nil {
		return err
	}
	s.claim(stopped.Sent == 0 && len(s.fleet.Requests("slack")) == before, "releasing it while the freeze is on sends nothing: a release is no side door")
	err = s.lower(ctx, "template corrected")
	if err != nil {
		return err
	}
	done, err := s.people.Release(ctx, h.ID)
	if err != nil {
		return err
	}
	s.say("$ stoplog holds release %s", h.ID)
	sent := s.fleet.Effects("slack")
	if done.Sent != 1 || len(sent) != 1 {
		return fmt.Errorf("released %d, Slack did %d; want 1 and 1: %+v", done.Sent, len(sent), done.Results)
	}
	s.claim(sum(sent[0].Body) == sum([]byte(message)), "what Slack got is what the agent wrote, byte for byte: sha256 %s = %s", sum([]byte(message)), sum(sent[0].Body))
	return nil
}

func parkedWrite(ctx context.Context, s *stage) error {
	err := s.raise(ctx, "L2", "checking what the agent did last night")
	if err != nil {
		return err
	}
	const issues = "/repos/acme/demo/issues"
	r, err := s.call(ctx, http.MethodPost, "github", issues, `{"title":"Rotate the keys"}`)
	if err != nil {
		return err
	}
	s.say("The agent opens a GitHub issue and hears: %d %s", r.status, clip(r.body))
	h, err := s.onlyHold(ctx)
	if err != nil {
		return err
	}
	s.claim(r.status == http.StatusForbidden && r.reason() == "write_freeze", "refused with 403 write_freeze, which no official client retries")
	s.claim(h.Hold.Verdict == "park" && len(s.fleet.Requests("github")) == 0, "the write is parked; nothing reached GitHub")
	read, err := s.call(ctx, http.MethodGet, "github", issues, "")
	if err != nil {
		return err
	}
	s.claim(read.status != http.StatusForbidden && len(s.fleet.Requests("github")) == 1, "reads go on: %d", read.status)
	err = s.lower(ctx, "nothing found")
	if err != nil {
		return err
	}
	op, err := s.people.Withdraw(ctx, h.ID, "done by hand meanwhile")
	if err != nil {
		return err
	}
	s.say("$ stoplog holds withdraw %s --reason %q", h.ID, "done by hand meanwhile")
	s.claim(op.State == "void" && len(s.fleet.Effects("github")) == 0, "withdrawn, and never sent")
	return nil
}

func breakerOpens(ctx context.Context, s *stage) error {
	err := s.fleet.AddFault(fakevendor.Fault{Vendor: "playground", Kind: fakevendor.Status, Status: http.StatusServiceUnavailable})
	if err != nil {
		return err
	}
	s.say("The CRM starts to answer 503.")
	refused := 0
	var last reply
	for range 10 {
		last, err = s.call(ctx, http.MethodGet, "crm", "/records", "")
		if err != nil {
			return err
		}
		if last.reason() == "breaker_open" {
			refused++
		}
	}
	reached := len(s.fleet.Requests("playground"))
	s.claim(refused > 0 && reached+refused == 10, "of 10 calls %d reached it, then the breaker opened and %d were refused at once", reached, refused)
	s.claim(last.header.Get("Retry-After") != "", "the refusal says when to come back: Retry-After %s", last.header.Get("Retry-After"))
	state, err := s.breaker(ctx, "crm")
	if err != nil {
		return err
	}
	s.claim(state == "open", "stoplog breaker list: crm %s", state)
	s.fleet.ClearFaults()
	s.say("The CRM is well again. Nobody touches Stoplog.")
	began := time.Now()
	err = eventually(ctx, func() (bool, error) {
		_, err := s.call(ctx, http.MethodGet, "crm", "/records", "")
		if err != nil {
			return false, err
		}
		state, err = s.breaker(ctx, "crm")
		time.Sleep(60 * time.Millisecond)
		return state == "closed", err
	})
	if err != nil && !errors.Is(err, errNever) {
		return err
	}
	s.claim(state == "closed", "after the cooldown two probes succeeded and it closed by itself, %.1f s later", time.Since(began).Seconds())
	return nil
}

// breaker is the worst state of a destination's breakers: they are kept per class of operation.
func (s *stage) breaker(ctx context.Context, destination string) (string, error) {
	list, err := s.people.Breakers(ctx)
	state := "unknown"
	for _, b := range list {
		if b.Destination == destination && (state == "unknown" || b.State != "closed") {
			state = b.State
		}
	}
	return state, err
}

func spendCap(ctx context.Context, s *stage) error {
	const body = `{"model":"demo-model","max_tokens":1000,"messages":[{"role":"user","content":"hello"}]}`
	before := len(s.fleet.Requests("openai"))
	err := s.fleet.AddFault(fakevendor.Fault{Vendor: "openai", Kind: fakevendor.LongAnswer, Tokens: answerTokens, DelayMS: 150})
	if err != nil {
		return err
	}
	defer s.fleet.ClearFaults()
	s.say("%d calls at once; each may cost a little more than $0.001, and the cap is %s.", capParallel, dollars(capMicros))
	var mu sync.Mutex
	var firstErr error
	let, refused := 0, 0
	var wg sync.WaitGroup
	for range capParallel {
		wg.Go(func() {
			r, err := s.call(ctx, http.MethodPost, "openai", "/v1/chat/completions", body)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				firstErr = err
			case r.status == http.StatusOK:
				let++
			case r.reason() == "budget_exhausted":
				refused++
			}
		})
	}
	wg.Wait()
	if firstErr != nil {
		return firstErr
	}
	reached := len(s.fleet.Requests("openai")) - before
	s.claim(let > 0 && refused > 0 && let+refused == capParallel, "%d were let through, %d refused with budget_exhausted", let, refused)
	s.claim(reached == let, "the provider saw exactly %d calls", reached)
	var b operator.Budget
	err = eventually(ctx, func() (bool, error) {
		list, err := s.people.Budgets(ctx)
		if err != nil || len(list) == 0 {
			return false, err
		}
		b = list[0]
		return b.Held == 0, nil
	})
	if err != nil {
		return err
	}
	s.claim(b.Used <= b.Limit && b.Used > answerTokens*int64(let), "no overspend: %s of %s used by the provider's own figures, nothing reserved any more (all %d would have cost %s)",
		dollars(b.Used), dollars(b.Limit), capParallel, dollars(capParallel*b.Used/int64(max(let, 1))))
	return nil
}

func lostReply(ctx context.Context, s *stage) error {
	err := s.fleet.AddFault(fakevendor.Fault{
		Vendor: "jira", Method: http.MethodPost, Path: "/rest/api/3/issue", Times: 1, Kind: fakevendor.CutAfterEffect,
	})
	if err != nil {
		return err
	}
	const issue = `{"fields":{"project":{"key":"DEMO"},"issuetype":{"name":"Task"},"summary":"Refund order 1001"}}`
	s.say("Jira creates the issue, and the connection breaks before its answer arrives.")
	var answers []string
	for range 3 {
		r, err := s.call(ctx, http.MethodPost, "jira", "/rest/api/3/issue", issue)
		if err != nil {
			return err
		}
		answers = append(answers, fmt.Sprintf("%d %s", r.status, r.reason()))
	}
	s.say("The agent hears %s; it tries twice more and hears %s.", answers[0], strings.Join(answers[1:], ", "))
	wire, done := len(s.fleet.Requests("jira")), len(s.fleet.Effects("jira"))
	s.claim(!strings.HasPrefix(answers[0], "2"), "a lost answer is told as unknown, not as success and not as failure")
	s.claim(wire == 1 && done == 1, "Jira saw %d request and made %d issue, though the agent tried three times", wire, done)
	ops, err := s.people.Operations(ctx)
	if err != nil {
		return err
	}
	s.claim(len(ops) == 1 && ops[0].State == "unknown", "the operation waits as unknown until somebody has looked: %s", firstID(ops))
	return nil
}

func firstID(ops []operator.Operation) string {
	if len(ops) == 0 {
		return "none"
	}
	return ops[0].ID
}

func dollars(micros int64) string { return fmt.Sprintf("$%d.%06d", micros/1_000_000, micros%1_000_000) }

// clip is the beginning of an answer on one line.
func clip(b []byte) string {
	s := strings.Join(strings.Fields(string(b)), " ")
	if r := []rune(s); len(r) > 150 {
		return string(r[:150]) + "…"
	}
	return s
}
