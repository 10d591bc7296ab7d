package connector

import (
	"bytes"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/stoplog/stoplog"
)

// model reads a model call. Limits that are not whole numbers of zero or more are refused: a limit that two readers read
// differently is none.
func (c *classifier) model(m *modelSource) (stoplog.ModelCall, error) {
	name, err := m.name.first(&c.in)
	if err != nil {
		return stoplog.ModelCall{}, err
	}
	out := stoplog.ModelCall{Name: name, Stream: m.streams, InputTokens: c.estimate()}
	for i := range m.maxOutput {
		n, err := c.count(&m.maxOutput[i])
		if err != nil {
			return out, err
		}
		out.MaxOutputTokens = max(out.MaxOutputTokens, n)
	}
	if m.choices != nil {
		n, err := c.count(m.choices)
		if err != nil {
			return out, err
		}
		if n > 1 && out.MaxOutputTokens > math.MaxInt64/n {
			return out, stoplog.Refuse(stoplog.ReasonMalformedBody, m.choices.label+" is out of range")
		}
		out.MaxOutputTokens *= max(n, 1)
	}
	if m.stream != nil && !out.Stream {
		s, err := m.stream.first(&c.in)
		if err != nil {
			return out, err
		}
		out.Stream = s == "true"
	}
	return out, nil
}

// count is the largest whole number at the source; 0 if there is none.
func (c *classifier) count(s *source) (int64, error) {
	var room [4]string
	values, err := s.values(&c.in, room[:0])
	var most int64
	for _, v := range values {
		n, err := strconv.ParseUint(v, 10, 40)
		if err != nil {
			return 0, stoplog.Refuse(stoplog.ReasonMalformedBody, s.label+" is no whole number in range")
		}
		most = max(most, int64(n))
	}
	return most, err
}

// estimate is how many tokens the request asks the model to read.
func (c *classifier) estimate() int64 {
	var t tokenCount
	switch {
	case c.in.doc != nil:
		t.document(c.in.doc)
	case len(c.in.fields) > 0:
		for i := range c.in.fields {
			t.text(c.in.fields[i].value)
		}
	default:
		t.ascii = int64(len(c.plain))
	}
	return t.tokens()
}

const (
	// mediaTokens is charged for an image, a sound or a file that is written into the request, and one more token per
	// mediaBytesPerToken of it. Providers count these by pixels, seconds and pages, which are not read here.
	mediaTokens        = 1600
	mediaBytesPerToken = 150
	// textOverhead is charged per text: roles and separators cost about three tokens each.
	textOverhead = 3
)

// tokenCount estimates tokens from text, rather too many than too few: one per 4 bytes of ASCII (English is near 4.5), one
// per 2 bytes of anything else (Chinese and Japanese are 3 bytes and near 1 token a character).
type tokenCount struct {
	ascii, other int64
	flat         int64
}

func (t *tokenCount) tokens() int64 { return (t.ascii+3)/4 + (t.other+1)/2 + t.flat }

// document counts all texts and names: tool definitions are read by the model, too.
func (t *tokenCount) document(d *document) {
	for i := range d.nodes {
		n := &d.nodes[i]
		t.ascii += int64(n.nameEnd - n.nameStart)
		if n.kind == '{' || n.kind == '[' {
			continue
		}
		b := d.raw[n.start:n.end]
		if n.kind != '"' {
			t.ascii += int64(len(b))
			continue
		}
		b = b[1 : len(b)-1]
		if n.escaped && bytes.Contains(b, []byte(`\u`)) {
			t.text(d.text(n)) // escapes are longer than what they stand for
			continue
		}
		t.bytes(b)
	}
}

func (t *tokenCount) text(s string) { t.bytes([]byte(s)) }

func (t *tokenCount) bytes(b []byte) {
	if isMedia(b) {
		t.flat += mediaTokens + int64(len(b))/mediaBytesPerToken
		return
	}
	t.flat += textOverhead
	other := 0
	for _, c := range b {
		if c >= utf8.RuneSelf {
			other++
		}
	}
	t.other += int64(other)
	t.ascii += int64(len(b) - other)
}

// isMedia reports whether a text is a base64 data URL, or long and base64 by its beginning.
func isMedia(b []byte) bool {
	if bytes.HasPrefix(b, []byte("data:")) && bytes.Contains(b[:min(len(b), 256)], []byte(";base64,")) {
		return true
	}
	if len(b) < 4096 {
		return false
	}
	for _, c := range b[:1024] {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '+' || c == '/' || c == '-' || c == '_') {
			return false
		}
	}
	return true
}
