package app_test

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoplog/stoplog/internal/app"
	"github.com/stoplog/stoplog/receipts"
)

// withNeighbour opens a second way in to one destination, whose actor is another tenant's: sidecar.BoundURL is its URL.
func withNeighbour(t *testing.T, tenant, destination string) func(*sidecar, *app.Options) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bootstrap.yaml")
	text := "listeners:\n  - {address: \"127.0.0.1:0\", actor: {tenant: acme, agent: bot}}\n" +
		"  - {address: \"127.0.0.1:0\", destination: " + destination + ", actor: {tenant: " + tenant + "}}\n" +
		"log: {level: DEBUG}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return withOptions(func(o *app.Options) { o.Bootstrap, o.Listen = file, "" })
}

// quick is a breaker that one test can open and see recover.
const quick = "{window: 10s, min_requests: 1000, failure_bps: 9000, consecutive_failures: 6, cooldown: 0.1s, probes_per_second: 20, close_after: 1}"

// once is a breaker that stays open for the rest of a test.
const once = "{window: 10s, min_requests: 1000, failure_bps: 9000, consecutive_failures: 6, cooldown: 600s, probes_per_second: 20, close_after: 1}"

// outcomes are the receipts that end an attempt or an operation at a destination.
func (s *sidecar) outcomes(destination string) []*receipts.Receipt {
	s.t.Helper()
	return s.find(func(r *receipts.Receipt) bool { return r.Outcome != nil && r.Destination == destination })
}

// ended waits for n ends and returns them.
func (s *sidecar) ended(destination string, n int) (rs []*receipts.Receipt) {
	s.t.Helper()
	eventually(s.t, "the ends are recorded", func() bool { rs = s.outcomes(destination); return len(rs) >= n })
	if len(rs) != n {
		s.t.Fatalf("%d ends are recorded, want %d", len(rs), n)
	}
	return rs
}

// script is a destination that speaks by hand: f serves the n-th connection, from 1.
func script(t *testing.T, f func(n int, c net.Conn, r *bufio.Reader)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for n := 1; ; n++ {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				f(n, c, bufio.NewReader(c))
			}()
		}
	}()
	return "http://" + ln.Addr().String()
}

// leaving sends a request and goes away when gone is closed.
func (s *sidecar) leaving(gone <-chan struct{}, method, url, body string, headers ...string) <-chan answer {
	ctx, leave := context.WithCancel(context.Background())
	out := make(chan answer, 1)
	go func() {
		defer leave()
		select {
		case <-gone:
		case <-s.t.Context().Done():
		}
	}()
	go func() { out <- doCtx(s.t, ctx, method, url, body, headers...) }()
	return out
}

// bodyText reads a request's body as text.
func bodyText(r *http.Request) string { return strings.Clone(string(drain(r))) }
