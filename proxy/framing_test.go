package proxy

import (
	"strings"
	"testing"
)

// feedInPieces follows a stream that arrives in pieces of n bytes.
func feedInPieces(s string, n int) bool {
	var f framer
	for len(s) > 0 {
		k := min(n, len(s))
		if !f.feed([]byte(s[:k])) {
			return false
		}
		s = s[k:]
	}
	return true
}

// Request smuggling by framing ambiguity (golang/go#71988, CVE-2025-22871; sozu-proxy/sozu#726).
func TestFramer(t *testing.T) {
	const post = "POST /x HTTP/1.1\r\nHost: a\r\n"
	for name, c := range map[string]struct {
		in   string
		want bool
	}{
		"plain":                         {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", true},
		"two pipelined":                 {"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", true},
		"length":                        {post + "Content-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\n\r\n", true},
		"chunked":                       {post + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n", true},
		"chunked with trailer":          {post + "Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n\r\n", true},
		"body that looks like a header": {post + "Content-Length: 26\r\n\r\nTransfer-Encoding: chunked", true},
		"both":                          {post + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", false},
		"bare LF after a chunk size":    {post + "Transfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n", false},
		"CR before the coding":          {post + "Transfer-Encoding: \rchunked\r\n\r\n", false},
		"two lengths":                   {post + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc", false},
		"two equal lengths":             {post + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", false},
		"LF-only lines":                 {"GET / HTTP/1.1\nHost: a\n\n", false},
		"one LF-only line":              {"GET / HTTP/1.1\r\nHost: a\n\r\n", false},
		"space before the colon":        {post + "Content-Length : 3\r\n\r\nabc", false},
		"folded header":                 {post + "X: a\r\n b\r\n\r\n", false},
		"gzip, chunked":                 {post + "Transfer-Encoding: gzip, chunked\r\n\r\n", false},
		"identity":                      {post + "Transfer-Encoding: identity\r\n\r\n", false},
		"chunk extension":               {post + "Transfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\n\r\n", false},
		"signed length":                 {post + "Content-Length: +3\r\n\r\nabc", false},
		"length in hex":                 {post + "Content-Length: 0x3\r\n\r\nabc", false},
		"empty length":                  {post + "Content-Length: \r\n\r\n", false},
		"chunk longer than it says":     {post + "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n", false},
		"NUL":                           {post + "X: a\x00b\r\n\r\n", false},
		"chunk size overflow":           {post + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", false},
		"endless line":                  {"GET /" + strings.Repeat("a", maxLine) + " HTTP/1.1\r\n\r\n", false},
	} {
		for _, n := range []int{1, 2, 7, len(c.in)} {
			if got := feedInPieces(c.in, n); got != c.want {
				t.Errorf("%s, in pieces of %d: %v, want %v", name, n, got, c.want)
			}
		}
	}
}

// Whatever arrives, and however it is cut, the framer neither panics nor changes its mind.
func FuzzFramer(f *testing.F) {
	f.Add("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 3)
	f.Add("POST /x HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\n\r\n", 1)
	f.Add("GET / HTTP/1.1\nHost: a\n\n", 5)
	f.Fuzz(func(t *testing.T, s string, n int) {
		n = 1 + abs(n)%64
		if feedInPieces(s, n) != feedInPieces(s, len(s)+1) {
			t.Errorf("pieces of %d and the whole are judged differently: %q", n, s)
		}
	})
}

func abs(n int) int {
	if n < 0 {
		return -(n + 1)
	}
	return n
}
