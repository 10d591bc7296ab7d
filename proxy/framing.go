package proxy

import (
	"bytes"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
)

// errFraming is what the server reads instead of a message whose framing has two readings.
var errFraming = errors.New("ambiguous framing")

// maxLine bounds one line of a message head or one chunk-size line.
const maxLine = 64 << 10

// FramingListener wraps a listener so that its connections refuse messages which two parsers can frame differently
// (request smuggling; golang/go#71988, CVE-2025-22871): header lines that end in a bare LF, Transfer-Encoding together with
// Content-Length, more than one Content-Length, any coding but a single "chunked", white space before a colon, folded lines,
// and chunk sizes that are not plain hexadecimal lines ending in CRLF. net/http accepts some of these.
func FramingListener(l net.Listener, refused func(net.Addr)) net.Listener {
	return framingListener{l, refused}
}

type framingListener struct {
	net.Listener
	refused func(net.Addr)
}

func (l framingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &framingConn{Conn: c, refused: l.refused}, nil
}

// framingConn follows the messages that pass through Read. It changes no byte: at the first ambiguity, Read fails.
type framingConn struct {
	net.Conn
	scan    framer
	refused func(net.Addr)
	bad     atomic.Bool
}

func (c *framingConn) Read(b []byte) (int, error) {
	if c.bad.Load() {
		return 0, errFraming
	}
	n, err := c.Conn.Read(b)
	if n > 0 && !c.scan.feed(b[:n]) {
		c.bad.Store(true)
		if c.refused != nil {
			c.refused(c.RemoteAddr())
		}
		return 0, errFraming
	}
	return n, err
}

// Write replaces the plain 400 of net/http by a refusal that says what is wrong.
func (c *framingConn) Write(b []byte) (int, error) {
	if c.bad.Load() && bytes.HasPrefix(b, []byte("HTTP/1.1 400 ")) {
		if _, err := c.Conn.Write(framingRefusal); err != nil {
			return 0, err
		}
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// CloseWrite lets net/http close gently.
func (c *framingConn) CloseWrite() error {
	if t, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return t.CloseWrite()
	}
	return nil
}

// framer is a state machine over a byte stream of HTTP/1.1 requests.
type framer struct {
	state framerState
	line  []byte
	left  uint64 // of a body with Content-Length, or of a chunk

	lengths int
	length  uint64
	chunked bool
	codings int
	first   bool // the request line was read
}

type framerState uint8

const (
	inHead framerState = iota
	inBody
	inChunkSize
	inChunk
	inChunkEnd
	inTrailer
)

// feed follows b; false means that the framing is ambiguous.
func (f *framer) feed(b []byte) bool {
	for len(b) > 0 {
		switch f.state {
		case inBody, inChunk:
			n := min(uint64(len(b)), f.left)
			b = b[n:]
			if f.left -= n; f.left == 0 {
				if f.state == inBody {
					f.reset()
				} else {
					f.state, f.line = inChunkEnd, f.line[:0]
				}
			}
		default:
			i := bytes.IndexByte(b, '\n')
			if i < 0 {
				f.line = append(f.line, b...)
				return len(f.line) <= maxLine
			}
			line := b[:i+1]
			if len(f.line) > 0 {
				f.line = append(f.line, line...)
				line = f.line
			}
			b = b[i+1:]
			if len(line) > maxLine || len(line) < 2 || line[len(line)-2] != '\r' {
				return false
			}
			line = line[:len(line)-2]
			if bytes.IndexByte(line, '\r') >= 0 || bytes.IndexByte(line, 0) >= 0 || !f.takeLine(line) {
				return false
			}
			f.line = f.line[:0]
		}
	}
	return true
}

func (f *framer) reset() { *f = framer{line: f.line[:0]} }

func (f *framer) takeLine(l []byte) bool {
	switch f.state {
	case inHead:
		return f.headLine(l)
	case inChunkSize:
		size, ok := chunkSize(l)
		if !ok {
			return false
		}
		if f.left = size; size == 0 {
			f.state = inTrailer
		} else {
			f.state = inChunk
		}
	case inChunkEnd:
		f.state = inChunkSize
		return len(l) == 0
	case inTrailer:
		if len(l) == 0 {
			f.reset()
			return true
		}
		return fieldName(l) != ""
	default: // inBody and inChunk have no lines
	}
	return true
}

func (f *framer) headLine(l []byte) bool {
	if !f.first {
		// net/http skips no empty lines before a request line, so neither do we.
		f.first = true
		return len(l) > 0
	}
	if len(l) > 0 {
		name := fieldName(l)
		if name == "" {
			return false
		}
		v := bytes.Trim(l[len(name)+1:], " \t")
		switch {
		case strings.EqualFold(name, "Content-Length"):
			n, err := strconv.ParseUint(string(v), 10, 63)
			if err != nil || v[0] == '+' {
				return false
			}
			f.lengths++
			f.length = n
		case strings.EqualFold(name, "Transfer-Encoding"):
			f.codings++
			f.chunked = strings.EqualFold(string(v), "chunked")
			if !f.chunked {
				return false
			}
		}
		return true
	}
	if f.lengths > 1 || f.codings > 1 || f.lengths > 0 && f.chunked {
		return false
	}
	switch {
	case f.chunked:
		f.state = inChunkSize
	case f.length > 0:
		f.state, f.left = inBody, f.length
	default:
		f.reset()
	}
	return true
}

// fieldName is the name of a header line, or "" when the line has none, is folded, or has white space before the colon.
func fieldName(l []byte) string {
	i := bytes.IndexByte(l, ':')
	if i <= 0 {
		return ""
	}
	for _, c := range l[:i] {
		if !tokenByte(c) {
			return ""
		}
	}
	return string(l[:i])
}

func tokenByte(c byte) bool {
	return c > ' ' && c < 0x7f && !strings.ContainsRune(`"(),/:;<=>?@[\]{}`, rune(c))
}

// chunkSize reads a chunk-size line; extensions are allowed by the standard but used by no client and read differently by
// servers: refused.
func chunkSize(l []byte) (uint64, bool) {
	if len(l) == 0 || len(l) > 15 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(l), 16, 60)
	return n, err == nil && l[0] != '+'
}
