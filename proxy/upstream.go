package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stoplog/stoplog"
)

// Upstream sends requests to one origin over HTTP/1.1. It differs from http.Transport where Stoplog must know more:
//
//   - it never repeats a request by itself (http.Transport repeats some over a fresh connection; golang/go#16036),
//   - it tells how much of a request may have left,
//   - headers keep their order and case, and head and body leave in one write,
//   - it works in the caller's goroutine.
type Upstream struct {
	origin string // "https://api.example.com"
	addr   string // host:port
	tls    *tls.Config
	guard  Guard

	mu   sync.Mutex
	idle []*upConn // newest last
}

const (
	maxIdle      = 512
	idleTimeout  = 60 * time.Second
	dialTimeout  = 10 * time.Second
	copyBuffer   = 32 << 10
	maxAnswerHdr = 1 << 20
)

// Upstreams keeps one Upstream per origin and TLS configuration: connections outlive configurations that do not change them.
type Upstreams struct {
	// Own reports the addresses that this process listens at; Lookup replaces the system's resolver.
	Own Guard
	mu  sync.Mutex
	m   map[string]*Upstream
}

// UpstreamConfig is what an Upstream depends on.
type UpstreamConfig struct {
	Scheme, Host       string // Host with port if it is not the scheme's own
	ServerName, CAFile string
	Guard              Guard
}

// Get returns the Upstream for c, made at first use.
func (u *Upstreams) Get(c UpstreamConfig) (*Upstream, error) {
	key := fmt.Sprintf("%s|%s|%s|%s|%v", c.Scheme, c.Host, c.ServerName, c.CAFile, c.Guard.Allowed)
	u.mu.Lock()
	defer u.mu.Unlock()
	if x := u.m[key]; x != nil {
		return x, nil
	}
	host, port, err := net.SplitHostPort(c.Host)
	if err != nil {
		host, port = strings.Trim(c.Host, "[]"), map[string]string{"https": "443", "http": "80"}[c.Scheme]
	}
	x := &Upstream{origin: c.Scheme + "://" + c.Host, addr: net.JoinHostPort(host, port), guard: c.Guard}
	x.guard.Own = u.Own.Own
	if x.guard.Lookup == nil {
		x.guard.Lookup = u.Own.Lookup
	}
	if c.Scheme == "https" {
		x.tls = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host, NextProtos: []string{"http/1.1"}, ClientSessionCache: tls.NewLRUClientSessionCache(64)}
		if c.ServerName != "" {
			x.tls.ServerName = c.ServerName
		}
		if c.CAFile != "" {
			pem, err := os.ReadFile(c.CAFile)
			if err != nil {
				return nil, fmt.Errorf("read ca_file: %w", err)
			}
			x.tls.RootCAs = x509.NewCertPool()
			if !x.tls.RootCAs.AppendCertsFromPEM(pem) {
				return nil, fmt.Errorf("ca_file %s holds no PEM certificate", c.CAFile)
			}
		}
	}
	if u.m == nil {
		u.m = map[string]*Upstream{}
	}
	u.m[key] = x
	return x, nil
}

// Close closes idle connections.
func (u *Upstreams) Close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, x := range u.m {
		x.mu.Lock()
		for _, c := range x.idle {
			_ = c.Close()
		}
		x.idle = nil
		x.mu.Unlock()
	}
}

// Sent is how much of a request may have reached the destination.
type Sent uint8

const (
	SentNone    Sent = iota // proven: not one byte
	SentPartial             // a part may have
	SentFull                // all of it was handed to the kernel
)

func (s Sent) String() string { return [...]string{"none", "partial", "full"}[min(int(s), 2)] }

// wireRequest is one transmission: the exact request, with the credentials and hop headers of this attempt.
type wireRequest struct {
	exact   *stoplog.Exact
	extra   []stoplog.Field // credentials, Stoplog's own
	chunked bool            // the agent sent chunks; framing is kept
}

// send writes one request and reads the head of the answer. A nil error means that a final answer is being read; its Body
// MUST be closed. Otherwise Sent tells what may have left.
func (u *Upstream) send(ctx context.Context, r *wireRequest) (*http.Response, Sent, error) {
	c, err := u.conn(ctx)
	if err != nil {
		return nil, SentNone, err
	}
	// A cancelled or expired context wakes the blocked read or write.
	c.stop = context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	c.sent = SentNone
	werr := c.write(r)
	resp, err := c.readAnswer(r.exact.Method)
	if err != nil {
		if werr != nil {
			err = werr
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		sent := c.sent
		c.discard()
		return nil, sent, fmt.Errorf("send to %s: %w", u.origin, err)
	}
	if werr != nil {
		// The destination answered before it had read everything (413 and the like): the answer counts, the connection not.
		resp.Close = true
	}
	resp.Body = &upBody{ReadCloser: resp.Body, c: c, reuse: !resp.Close}
	return resp, c.sent, nil
}

// upConn is one connection.
type upConn struct {
	net.Conn
	u     *Upstream
	r     *bufio.Reader
	limit io.LimitedReader // bounds the head of an answer
	out   []byte
	since time.Time // idle since
	stop  func() bool
	sent  Sent
}

func (u *Upstream) conn(ctx context.Context) (*upConn, error) {
	for {
		u.mu.Lock()
		n := len(u.idle)
		if n == 0 {
			u.mu.Unlock()
			break
		}
		c := u.idle[n-1]
		u.idle[n-1] = nil
		u.idle = u.idle[:n-1]
		u.mu.Unlock()
		if time.Since(c.since) < idleTimeout && alive(c.Conn) {
			return c, nil
		}
		_ = c.Close()
	}
	dctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	nc, err := u.guard.DialContext(dctx, "tcp", u.addr)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", u.origin, err)
	}
	if u.tls != nil {
		t := tls.Client(nc, u.tls)
		if err := t.HandshakeContext(dctx); err != nil {
			_ = nc.Close()
			return nil, fmt.Errorf("TLS with %s: %w", u.origin, err)
		}
		nc = t
	}
	c := &upConn{Conn: nc, u: u}
	c.limit = io.LimitedReader{R: nc, N: math.MaxInt64}
	c.r = bufio.NewReaderSize(&c.limit, 4<<10)
	return c, nil
}

// put keeps a connection for the next request.
func (c *upConn) put() {
	if c.stop != nil && !c.stop() {
		_ = c.Close() // the context fired: its deadline may hit the next request
		return
	}
	c.stop = nil
	if c.r.Buffered() > 0 || cap(c.out) > 1<<20 {
		_ = c.Close()
		return
	}
	c.since = time.Now()
	u := c.u
	u.mu.Lock()
	var old *upConn
	if len(u.idle) > 0 && (len(u.idle) >= maxIdle || c.since.Sub(u.idle[0].since) > idleTimeout) {
		old = u.idle[0]
		u.idle = append(u.idle[:0], u.idle[1:]...)
	}
	u.idle = append(u.idle, c)
	u.mu.Unlock()
	if old != nil {
		_ = old.Close()
	}
}

func (c *upConn) discard() {
	if c.stop != nil {
		c.stop()
	}
	_ = c.Close()
}

// alive looks, without waiting, whether the destination has closed an idle connection or sent something unasked.
func alive(c net.Conn) bool {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	sc, ok := c.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	ok = false
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, e := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		ok = errors.Is(e, syscall.EAGAIN)
		return true
	})
	return err == nil && ok
}

// write sends head and body in one call where the body is small.
func (c *upConn) write(r *wireRequest) error {
	x := r.exact
	b := c.out[:0]
	b = append(append(append(append(b, x.Method...), ' '), x.Target...), " HTTP/1.1\r\nHost: "...)
	b = append(append(b, x.Host...), "\r\n"...)
	for _, fs := range [...][]stoplog.Field{x.Header, r.extra} {
		for _, f := range fs {
			b = append(append(append(append(b, f.Name...), ": "...), f.Value...), "\r\n"...)
		}
	}
	switch {
	case r.chunked:
		b = append(b, "Transfer-Encoding: chunked\r\n\r\n"...)
		if len(x.Body) > 0 {
			b = append(strconv.AppendInt(b, int64(len(x.Body)), 16), "\r\n"...)
		}
	case len(x.Body) > 0 || x.Method == http.MethodPost || x.Method == http.MethodPut || x.Method == http.MethodPatch:
		b = append(b, "Content-Length: "...)
		b = append(strconv.AppendInt(b, int64(len(x.Body)), 10), "\r\n\r\n"...)
	default:
		b = append(b, "\r\n"...)
	}
	end := ""
	if r.chunked {
		end = "0\r\n\r\n"
		if len(x.Body) > 0 {
			end = "\r\n0\r\n\r\n"
		}
	}
	c.sent = SentPartial // a write that fails may have sent a part
	if len(x.Body) <= 64<<10 {
		b = append(append(b, x.Body...), end...)
		c.out = b
		_, err := c.Write(b)
		if err != nil {
			return err
		}
	} else {
		c.out = b
		bufs := net.Buffers{b, x.Body}
		if end != "" {
			bufs = append(bufs, []byte(end))
		}
		if _, err := bufs.WriteTo(c.Conn); err != nil {
			return err
		}
	}
	c.sent = SentFull
	return nil
}

// readAnswer reads the head of the final answer. Interim answers (1xx) are never the result; they are dropped.
func (c *upConn) readAnswer(method string) (*http.Response, error) {
	c.limit.N = maxAnswerHdr
	defer func() { c.limit.N = math.MaxInt64 }()
	for range 16 {
		resp, err := http.ReadResponse(c.r, &http.Request{Method: method})
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil, errBrokenAnswer
		case err != nil:
			return nil, err
		case resp.StatusCode == http.StatusSwitchingProtocols:
			return nil, errors.New("the destination switched protocols unasked")
		case resp.StatusCode >= 200:
			return resp, nil
		}
	}
	return nil, errors.New("the destination sent too many interim answers")
}

var errBrokenAnswer = errors.New("the connection closed before an answer")

// upBody returns the connection once the body has been read to its announced end.
type upBody struct {
	io.ReadCloser
	c     *upConn
	reuse bool
	end   bool
}

func (b *upBody) Read(p []byte) (int, error) {
	if b.c == nil {
		return 0, io.EOF
	}
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.end = true
		b.release()
	}
	return n, err
}

func (b *upBody) release() {
	c := b.c
	if c == nil {
		return
	}
	b.c = nil
	if b.end && b.reuse {
		c.put()
	} else {
		c.discard()
	}
}

// Close gives the connection up unless the body ended.
func (b *upBody) Close() error {
	if b.c != nil {
		b.c.discard()
		b.c = nil
	}
	return nil
}
