package receipts

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// parser reads canonical JSON and nothing else: whatever a canonical writer could not have produced is an error, so a
// leaf that parses is canonical, and two different leaves never read as one.
type parser struct {
	b     []byte
	i     int
	depth int
	err   error
}

const maxDepth = 8

var errNotCanonical = errors.New("not canonical")

func (p *parser) fail(what string) {
	if p.err == nil {
		p.err = fmt.Errorf("%w: byte %d: %s", errNotCanonical, p.i, what)
	}
}

func (p *parser) peek() byte {
	if p.err != nil || p.i >= len(p.b) {
		return 0
	}
	return p.b[p.i]
}

func (p *parser) take(c byte) bool {
	if p.peek() != c || p.err != nil || p.i >= len(p.b) {
		return false
	}
	p.i++
	return true
}

func (p *parser) want(c byte) {
	if !p.take(c) {
		p.fail(fmt.Sprintf("want %q", c))
	}
}

// object reads an object. member is called with each name and reads its value, or returns false to have it skipped.
func (p *parser) object(member func(name string) bool) {
	if !p.enter('{') {
		return
	}
	defer p.leave()
	if p.take('}') {
		return
	}
	last := ""
	for n := 0; p.err == nil; n++ {
		at := p.i
		name := p.text()
		if p.err == nil && n > 0 && compareUTF16(last, name) >= 0 {
			p.i = at
			p.fail("member out of order or twice")
		}
		last = name
		p.want(':')
		if p.err == nil && !member(name) {
			p.skip()
		}
		if !p.take(',') {
			p.want('}')
			return
		}
	}
}

func (p *parser) array(element func()) {
	if !p.enter('[') {
		return
	}
	defer p.leave()
	if p.take(']') {
		return
	}
	for p.err == nil {
		element()
		if !p.take(',') {
			p.want(']')
			return
		}
	}
}

func (p *parser) enter(c byte) bool {
	p.want(c)
	p.depth++
	if p.depth > maxDepth {
		p.fail("nested too deep")
	}
	if p.err != nil {
		p.depth--
		return false
	}
	return true
}

func (p *parser) leave() { p.depth-- }

// skip checks the form of a value that has no meaning here.
func (p *parser) skip() {
	switch c := p.peek(); {
	case c == '{':
		p.object(func(string) bool { return false })
	case c == '[':
		p.array(p.skip)
	case c == '"':
		p.text()
	case c == 't' || c == 'f':
		p.flag()
	default:
		p.integer()
	}
}

func (p *parser) flag() bool {
	for _, s := range [...]string{"true", "false"} {
		if p.err == nil && len(p.b)-p.i >= len(s) && string(p.b[p.i:p.i+len(s)]) == s {
			p.i += len(s)
			return s == "true"
		}
	}
	p.fail("want true or false")
	return false
}

func (p *parser) integer() int64 {
	from := p.i
	minus := p.take('-')
	n, digits := int64(0), 0
	for c := p.peek(); c >= '0' && c <= '9'; c = p.peek() {
		n = n*10 + int64(c-'0')
		digits++
		p.i++
		if n > maxInteger {
			p.fail("integer beyond 2^53-1")
			return 0
		}
	}
	switch {
	case p.err != nil:
		return 0
	case digits == 0:
		p.fail("want an integer")
	case p.b[p.i-digits] == '0' && (digits > 1 || minus):
		p.i = from
		p.fail("integer with a leading zero")
	case p.peek() == '.' || p.peek() == 'e' || p.peek() == 'E':
		p.fail("number is not an integer")
	}
	if minus {
		return -n
	}
	return n
}

// text reads a string with minimal escapes.
func (p *parser) text() string {
	p.want('"')
	from, plain := p.i, true
	for p.err == nil {
		if p.i >= len(p.b) {
			p.fail("string without end")
			break
		}
		c := p.b[p.i]
		if c == '"' {
			break
		}
		if c == '\\' {
			return p.escaped(from)
		}
		if c < 0x20 {
			p.fail("control character in a string")
		}
		plain = plain && c < utf8.RuneSelf
		p.i++
	}
	if p.err != nil {
		return ""
	}
	s := p.b[from:p.i]
	if !plain && !utf8.Valid(s) {
		p.fail("string is not UTF-8")
		return ""
	}
	p.i++
	return string(s)
}

var shortEscapes = map[byte]byte{'"': '"', '\\': '\\', 'b': '\b', 't': '\t', 'n': '\n', 'f': '\f', 'r': '\r'}

func (p *parser) escaped(from int) string {
	out := append([]byte(nil), p.b[from:p.i]...)
	for p.err == nil {
		if p.i >= len(p.b) {
			p.fail("string without end")
			break
		}
		c := p.b[p.i]
		switch {
		case c == '"':
			if !utf8.Valid(out) {
				p.fail("string is not UTF-8")
				return ""
			}
			p.i++
			return string(out)
		case c == '\\':
			out = append(out, p.escape())
		case c < 0x20:
			p.fail("control character in a string")
		default:
			out = append(out, c)
			p.i++
		}
	}
	return ""
}

func (p *parser) escape() byte {
	rest := p.b[p.i+1:]
	if len(rest) > 0 {
		if c, ok := shortEscapes[rest[0]]; ok {
			p.i += 2
			return c
		}
	}
	if len(rest) >= 5 && string(rest[:3]) == "u00" {
		hi, lo := hexDigit(rest[3]), hexDigit(rest[4])
		c := hi<<4 | lo
		if hi >= 0 && lo >= 0 && c < 0x20 && shortFor(byte(c)) == 0 {
			p.i += 6
			return byte(c)
		}
	}
	p.fail("escape is not minimal")
	return 0
}

func shortFor(c byte) byte {
	for k, v := range shortEscapes {
		if v == c {
			return k
		}
	}
	return 0
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	}
	return -1
}
