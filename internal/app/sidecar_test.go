package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/internal/app"
	"github.com/stoplog/stoplog/internal/fakevendor"
	"github.com/stoplog/stoplog/internal/operator"
	"github.com/stoplog/stoplog/receipts"
)

// sidecar is a running one with everything real but the vendors.
type sidecar struct {
	*app.App
	t      *testing.T
	fleet  *fakevendor.Fleet
	config string // file
	dests  []dest
	extra  string
	broken bool // the test broke it: closing may fail
}

// dest is one destination of a test's configuration; empty fields have harmless values.
type dest struct {
	name, url, profile string
	total, perAttempt  string
	idle               string
	attempts           int
	breaker            string
	requests           string
	seats              int
	share              int
	more               string
}

func (d dest) yaml() string {
	or := func(s, v string) string {
		if s == "" {
			return v
		}
		return s
	}
	idle := ""
	if d.idle != "" {
		idle = ", idle: " + d.idle
	}
	retry := ""
	if d.attempts > 1 {
		retry = fmt.Sprintf("\n    retry: {attempts: %d, bucket: {capacity: 100, refill_tokens: 100, refill_interval: 1s}, base_backoff: 1ms, max_backoff: 5ms, min_useful_attempt: 10ms}", d.attempts)
	}
	return fmt.Sprintf(`
  - name: %s
    url: %s
    connector_profile: %s
    deadline: {total: %s, per_attempt: %s%s}%s
    breaker: %s
    limit: {requests: %s, max_concurrency: %d, tenant_share_bps: %d}
    allowed_networks: [127.0.0.0/8]
    %s
`, d.name, d.url, or(d.profile, d.name), or(d.total, "20s"), or(d.perAttempt, "5s"), idle, retry,
		or(d.breaker, "{window: 10s, min_requests: 100, failure_bps: 9000, consecutive_failures: 100, cooldown: 1s, probes_per_second: 20, close_after: 1}"),
		or(d.requests, "{capacity: 1000, refill_tokens: 1000, refill_interval: 1s}"), orInt(d.seats, 50), orInt(d.share, 10000), or(d.more, "hold: {keep_agent_credential: true}"))
}

func orInt(n, v int) int {
	if n == 0 {
		return v
	}
	return n
}

// start runs a sidecar in front of the given destinations; one without a URL is a fake vendor of its name.
func start(t *testing.T, dests []dest, options ...func(*sidecar, *app.Options)) *sidecar {
	t.Helper()
	s := &sidecar{t: t, dests: dests}
	for i := range s.dests {
		if s.dests[i].url == "" {
			if s.fleet == nil {
				f, err := fakevendor.Start(context.Background(), fakevendor.Options{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(f.Close)
				s.fleet = f
			}
			s.dests[i].url = s.fleet.URL(s.dests[i].name)
		}
	}
	dir := t.TempDir()
	s.config = filepath.Join(dir, "stoplog.yaml")
	data, err := os.MkdirTemp("", "sl") // short: a socket's path is limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(data) })
	o := app.Options{
		Config: []string{s.config}, Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Data: data, Tenant: "acme", Agent: "bot", Version: "test",
		LogOut: testLog{t},
	}
	for _, f := range options {
		f(s, &o)
	}
	s.write()
	s.App, err = app.Start(t.Context(), o)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil && !s.broken {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func (s *sidecar) write() {
	var b strings.Builder
	b.WriteString("destinations:")
	for _, d := range s.dests {
		b.WriteString(d.yaml())
	}
	b.WriteString(s.extra)
	if err := os.WriteFile(s.config, []byte(b.String()), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func withConfig(yaml string) func(*sidecar, *app.Options) {
	return func(s *sidecar, _ *app.Options) { s.extra = yaml }
}

func withOptions(f func(*app.Options)) func(*sidecar, *app.Options) {
	return func(_ *sidecar, o *app.Options) { f(o) }
}

type testLog struct{ t *testing.T }

func (l testLog) Write(b []byte) (int, error) {
	if testing.Verbose() {
		fmt.Fprint(os.Stderr, l.t.Name(), ": ", string(b))
	}
	return len(b), nil
}

// answer is what an agent got.
type answer struct {
	status int
	header http.Header
	body   string
	err    error // of reading the body
}

func (a answer) problem(t *testing.T) (p struct {
	Reason, Disposition, Operation, Sent, Retry, Detail string
},
) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), &p); err != nil {
		t.Fatalf("not a problem (%v): %d %s", err, a.status, a.body)
	}
	return p
}

var client = &http.Client{
	Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 256},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func (s *sidecar) do(method, url, body string, headers ...string) answer {
	s.t.Helper()
	return doCtx(s.t, context.Background(), method, url, body, headers...)
}

func doCtx(t *testing.T, ctx context.Context, method, url, body string, headers ...string) answer {
	t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, r)
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Authorization", "Bearer xoxb-test")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header[headers[i]] = append(req.Header[headers[i]][:0:0], headers[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(b), err}
}

// post sends JSON to a destination's path.
func (s *sidecar) post(destination, path, body string, headers ...string) answer {
	s.t.Helper()
	return s.do("POST", s.URL(destination)+path, body, headers...)
}

func (s *sidecar) operator() *operator.Client { return operator.Dial(s.OperatorSocket()) }

// raise sets a level on a scope, as automation may.
func (s *sidecar) raise(scope string, l stoplog.Level) {
	s.t.Helper()
	if _, err := s.operator().ChangeLevel(context.Background(), operator.LevelChange{Action: "raise", Scope: scope, Level: l.String(), Reason: "test"}); err != nil {
		s.t.Fatalf("raise: %v", err)
	}
}

// lower is a human's decision who has seen all raises so far.
func (s *sidecar) lower(scope string, l stoplog.Level) {
	s.t.Helper()
	levels, err := s.operator().Levels(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	ch := operator.LevelChange{Action: "lower", Scope: scope, Level: l.String(), Reason: "test"}
	for _, x := range levels {
		if x.Scope == scope {
			ch.Seen = x.Epoch
		}
	}
	if _, err := s.operator().ChangeLevel(s.t.Context(), ch); err != nil {
		s.t.Fatalf("lower: %v", err)
	}
}

// release releases one hold.
func (s *sidecar) release(id string) operator.Released {
	s.t.Helper()
	a, err := s.operator().Release(s.t.Context(), id)
	if err != nil || len(a.Results) != 1 {
		s.t.Fatalf("release %s: %+v, %v", id, a, err)
	}
	return a.Results[0]
}

// all reads the receipts written so far; those of ended requests are durable within the log's interval.
func (s *sidecar) all() []*receipts.Receipt {
	s.t.Helper()
	rs, err := s.Receipts(s.t.Context())
	if err != nil {
		s.t.Fatalf("read receipts: %v", err)
	}
	return rs
}

// eventually waits for something that happens beside a request.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if f() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// find returns the receipts that match.
func (s *sidecar) find(match func(*receipts.Receipt) bool) (out []*receipts.Receipt) {
	s.t.Helper()
	for _, r := range s.all() {
		if match(r) {
			out = append(out, r)
		}
	}
	return out
}

// upstream is a destination that the test writes by hand.
func upstream(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func drain(r *http.Request) []byte {
	b, _ := io.ReadAll(r.Body)
	return bytes.Clone(b)
}
