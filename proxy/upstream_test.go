package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoplog/stoplog"
)

// scripted is a raw TCP server: each connection is served by f.
func scripted(t *testing.T, f func(n int, c net.Conn, r *bufio.Reader)) (*Upstream, *atomic.Int64) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	var conns atomic.Int64
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			n := int(conns.Add(1))
			go func() {
				defer c.Close()
				f(n, c, bufio.NewReader(c))
			}()
		}
	}()
	return upstreamAt(t, "http", ln.Addr().String()), &conns
}

func upstreamAt(t *testing.T, scheme, host string) *Upstream {
	t.Helper()
	var us Upstreams
	u, err := us.Get(UpstreamConfig{Scheme: scheme, Host: host, Guard: Guard{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(us.Close)
	return u
}

func readRequest(r *bufio.Reader) (head string, body []byte, err error) {
	var b strings.Builder
	length := 0
	for {
		l, err := r.ReadString('\n')
		if err != nil {
			return "", nil, err
		}
		b.WriteString(l)
		if l == "\r\n" {
			break
		}
		if v, ok := strings.CutPrefix(l, "Content-Length: "); ok {
			for _, c := range strings.TrimSpace(v) {
				length = length*10 + int(c-'0')
			}
		}
	}
	body = make([]byte, length)
	_, err = io.ReadFull(r, body)
	return b.String(), body, err
}

func post(body string, h ...stoplog.Field) *wireRequest {
	return &wireRequest{exact: &stoplog.Exact{Method: "POST", Host: "api.example.com", Target: "/v1/x?a=%20b", Header: h, Body: []byte(body)}}
}

// Head and body arrive byte for byte, header order and case kept, length staying length (aws/mcp-proxy-for-aws#313).
func TestUpstreamSendsExactBytes(t *testing.T) {
	got := make(chan string, 2)
	u, conns := scripted(t, func(_ int, c net.Conn, r *bufio.Reader) {
		for {
			head, body, err := readRequest(r)
			if err != nil {
				return
			}
			got <- head + string(body)
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	for range 2 {
		resp, sent, err := u.send(t.Context(), post(`{ "a" : 1 }`, stoplog.Field{Name: "X-zig", Value: "1"}, stoplog.Field{Name: "Content-Type", Value: "application/json"}))
		if err != nil || sent != SentFull {
			t.Fatalf("send: %v, %v", sent, err)
		}
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(b) != "ok" {
			t.Errorf("answer %q", b)
		}
		want := "POST /v1/x?a=%20b HTTP/1.1\r\nHost: api.example.com\r\nX-zig: 1\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n" + `{ "a" : 1 }`
		if g := <-got; g != want {
			t.Errorf("the destination read\n%q, want\n%q", g, want)
		}
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections for two requests, want 1", n)
	}
}

// A client that repeats a write by itself is outside every retry budget (golang/go#16036): with a warm connection that the
// destination closes after reading, http.Transport sends a POST with an Idempotency-Key twice.
func TestUpstreamNeverRepeats(t *testing.T) {
	var requests atomic.Int64
	u, _ := scripted(t, func(n int, c net.Conn, r *bufio.Reader) {
		for i := 0; ; i++ {
			if _, _, err := readRequest(r); err != nil {
				return
			}
			requests.Add(1)
			if n == 1 && i == 1 {
				return // reads the second request and closes without an answer
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})
	for _, method := range []string{"POST", "GET"} {
		requests.Store(0)
		w := post("", stoplog.Field{Name: "Idempotency-Key", Value: "k"})
		w.exact.Method = method
		resp, _, err := u.send(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if method == "GET" {
			break // the connection that closes was the first one
		}
		_, sent, err := u.send(t.Context(), w)
		if err == nil || sent != SentFull {
			t.Errorf("%s: sent %v, err %v; want full and an error", method, sent, err)
		}
		if n := requests.Load(); n != 2 {
			t.Errorf("%s: %d requests on the wire, want 2", method, n)
		}
	}
}

// 1xx answers are never the result (golang/go#26088).
func TestUpstreamSkipsInterimAnswers(t *testing.T) {
	u, _ := scripted(t, func(_ int, c net.Conn, r *bufio.Reader) {
		if _, _, err := readRequest(r); err != nil {
			return
		}
		io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	})
	resp, _, err := u.send(t.Context(), post("x"))
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("%v, %v; want 200", resp, err)
	}
	resp.Body.Close()
}

// Unannounced trailers are kept (golang/go#20437, #29031).
func TestUpstreamKeepsTrailers(t *testing.T) {
	u, _ := scripted(t, func(_ int, c net.Conn, r *bufio.Reader) {
		if _, _, err := readRequest(r); err != nil {
			return
		}
		io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\ngrpc-status: 14\r\n\r\n")
	})
	resp, _, err := u.send(t.Context(), post("x"))
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if got := resp.Trailer.Get("Grpc-Status"); got != "14" {
		t.Errorf("trailer %q, want 14", got)
	}
}

func TestUpstreamTellsWhatLeft(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	_, sent, err := upstreamAt(t, "http", addr).send(t.Context(), post("x"))
	if err == nil || sent != SentNone {
		t.Errorf("refused connection: sent %v, %v; want none", sent, err)
	}
	u, _ := scripted(t, func(_ int, _ net.Conn, r *bufio.Reader) { readRequest(r); <-t.Context().Done() })
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := time.AfterFunc(20*time.Millisecond, func() { cancel(errAttemptTimeout) })
	defer stop.Stop()
	_, sent, err = u.send(ctx, post("x"))
	if !errors.Is(err, errAttemptTimeout) || sent != SentFull {
		t.Errorf("no answer: sent %v, %v; want full and the cause", sent, err)
	}
}

// An idle connection that the destination has closed is noticed before anything is written to it.
func TestUpstreamLooksBeforeItWrites(t *testing.T) {
	closed := make(chan struct{})
	u, conns := scripted(t, func(n int, c net.Conn, r *bufio.Reader) {
		for {
			if _, _, err := readRequest(r); err != nil {
				return
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			if n == 1 {
				c.Close()
				close(closed)
				return
			}
		}
	})
	for range 2 {
		resp, _, err := u.send(t.Context(), post("x"))
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		<-closed
	}
	if n := conns.Load(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
}

func TestUpstreamLargeBodyAndTLS(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Write(b)
	}))
	defer s.Close()
	u := upstreamAt(t, "https", strings.TrimPrefix(s.URL, "https://"))
	u.tls.RootCAs = s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	u.tls.ServerName = "example.com"
	body := strings.Repeat("0123456789", 50_000)
	for _, chunked := range []bool{false, true} {
		w := post(body)
		w.chunked = chunked
		resp, _, err := u.send(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(b) != body {
			t.Errorf("chunked %v: %d bytes came back, %v; want %d", chunked, len(b), err, len(body))
		}
	}
}
