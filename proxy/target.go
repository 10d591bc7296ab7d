package proxy

import (
	"net/netip"
	"net/url"
	"strings"

	"github.com/stoplog/stoplog"
)

// target is a request target with one reading.
type target struct {
	path  string // escaped, canonical: forwarded as it is
	query string // raw, without "?"
	mark  bool   // "?" was present
}

// parseTarget checks an origin-form request target (RFC 9112 3.2.1). What two servers may read differently is refused, never
// repaired: empty, "." and ".." segments in any spelling, percent-encoded characters that need no encoding, backslashes,
// and a query that does not parse or has ";" in it (golang/go#54663).
func parseTarget(s string) (target, error) {
	var t target
	t.path, t.query, t.mark = strings.Cut(s, "?")
	if !strings.HasPrefix(t.path, "/") {
		return t, stoplog.Refuse(stoplog.ReasonUnknownDestination,
			"this listener takes paths like /<destination>/<path>; it is no forward proxy")
	}
	if why := ambiguousPath(t.path); why != "" {
		return t, stoplog.Refuse(stoplog.ReasonAmbiguousPath, why)
	}
	if strings.Contains(t.query, ";") {
		return t, stoplog.Refuse(stoplog.ReasonAmbiguousQuery, `the query contains ";", which servers split differently; encode it as %3B`)
	}
	if _, err := url.ParseQuery(t.query); err != nil {
		return t, stoplog.Refuse(stoplog.ReasonAmbiguousQuery, "the query has a malformed percent-encoding")
	}
	for i := range len(t.query) {
		if c := t.query[i]; c <= ' ' || c >= 0x7f || c == '#' {
			return t, stoplog.Refuse(stoplog.ReasonAmbiguousQuery, "the query contains a character that must be percent-encoded")
		}
	}
	return t, nil
}

func ambiguousPath(p string) string {
	for i := 0; i < len(p); i++ {
		switch c := p[i]; {
		case c == '%':
			if i+2 >= len(p) || unhex(p[i+1]) < 0 || unhex(p[i+2]) < 0 {
				return "the path has a malformed percent-encoding"
			}
			d := byte(unhex(p[i+1])<<4 | unhex(p[i+2]))
			if unreserved(d) {
				return "the path percent-encodes a character that needs no encoding, so that it has two spellings"
			}
			if d < 0x20 || d == 0x7f || d == '\\' {
				return "the path contains an encoded control character or backslash"
			}
			i += 2
		case c <= ' ' || c >= 0x7f || c == '\\' || c == '#' || c == '"' || c == '<' || c == '>' || c == '^' || c == '`' || c == '{' || c == '|' || c == '}':
			return "the path contains a character that must be percent-encoded"
		}
	}
	for seg := range strings.SplitSeq(p[1:], "/") {
		if seg == "." || seg == ".." {
			return "the path has a dot segment"
		}
	}
	if strings.Contains(p, "//") {
		return "the path has an empty segment"
	}
	return ""
}

// encodedSeparator reports whether a path hides a slash. Such a path may only be forwarded where a profile's operation names
// it with a variable, since a server that decodes it first would see another operation.
func encodedSeparator(p string) bool {
	return strings.Contains(p, "%2F") || strings.Contains(p, "%2f")
}

func unreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// localHost reports whether a Host header names this machine's loopback or the address the listener is bound to. Anything
// else is a page that a browser was led to by DNS rebinding, or a client that takes this for a forward proxy.
func localHost(host, bound string) bool {
	if strings.EqualFold(host, bound) {
		return true
	}
	h := host
	if i := strings.LastIndexByte(h, ':'); i >= 0 && !strings.HasSuffix(h, "]") {
		h = h[:i]
	}
	h = strings.TrimSuffix(strings.TrimPrefix(h, "["), "]")
	if strings.EqualFold(h, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(h)
	if err != nil {
		return false
	}
	if a.IsLoopback() {
		return true
	}
	b, err := netip.ParseAddrPort(bound)
	return err == nil && (b.Addr() == a || b.Addr().IsUnspecified())
}
