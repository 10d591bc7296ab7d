package connector

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stoplog/stoplog"
)

// maxFields is how many fields a form, a query or a multipart body may have.
const maxFields = 2000

// pair is one field of a form, a query or a multipart body.
type pair struct {
	name, value string
	file        bool // a part with a file name: its content is not read
}

// parsePairs reads application/x-www-form-urlencoded text strictly: no ";" (golang/go#54663), whole percent-encodings, UTF-8,
// no control characters in names.
func parsePairs(s string, dst []pair) ([]pair, string) {
	for len(s) > 0 {
		part := s
		i := strings.IndexByte(s, '&')
		if i >= 0 {
			part, s = s[:i], s[i+1:]
		} else {
			s = ""
		}
		if part == "" {
			continue
		}
		if len(dst) == maxFields {
			return dst, "has more than 2000 fields"
		}
		name, value, _ := strings.Cut(part, "=")
		name, ok := unescapePair(name)
		value, ok2 := unescapePair(value)
		if !ok || !ok2 {
			return dst, `has a malformed percent-encoding, a raw ";", or text that is not UTF-8`
		}
		if name == "" {
			return dst, "has a field without a name"
		}
		if strings.ContainsFunc(name, isControl) {
			return dst, "has a control character in a field's name"
		}
		dst = append(dst, pair{name: name, value: value})
	}
	return dst, ""
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

func unescapePair(s string) (string, bool) {
	plain := true
	for i := range len(s) {
		switch c := s[i]; {
		case c == ';' || c < ' ':
			return "", false
		case c == '%' || c == '+' || c >= utf8.RuneSelf:
			plain = false
		}
	}
	if plain {
		return s, true
	}
	return percentDecode(s, true)
}

// percentDecode decodes s; the result must be UTF-8. plus says that "+" stands for a space, as in forms.
func percentDecode(s string, plus bool) (string, bool) {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '+' && plus:
			b = append(b, ' ')
		case s[i] == '%':
			if i+2 >= len(s) {
				return "", false
			}
			h, l := unhex(s[i+1]), unhex(s[i+2])
			if h < 0 || l < 0 {
				return "", false
			}
			b = append(b, byte(h<<4|l))
			i += 2
		default:
			b = append(b, s[i])
		}
	}
	return string(b), utf8.Valid(b)
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

// parseQuery reads the query of a request.
func parseQuery(raw string) ([]pair, error) {
	if raw == "" {
		return nil, nil
	}
	p, why := parsePairs(raw, nil)
	if why != "" {
		return nil, stoplog.Refuse(stoplog.ReasonAmbiguousQuery, "the query "+why)
	}
	return p, nil
}

// parseForm reads a form body. A field that occurs twice is refused unless its name ends in "[]" or the operation says that
// it may be repeated: one server takes the first, another the last.
func parseForm(b []byte, repeated []string) ([]pair, error) {
	p, why := parsePairs(string(b), nil)
	if why != "" {
		return nil, stoplog.Refuse(stoplog.ReasonMalformedBody, "the form body "+why)
	}
	return p, uniqueFields(p, repeated)
}

func uniqueFields(p []pair, repeated []string) error {
	var seen map[string]struct{}
	if len(p) > 16 { // below, comparing each with each is cheaper
		seen = make(map[string]struct{}, len(p))
	}
	for i := range p {
		twice := false
		if seen == nil {
			twice = slices.ContainsFunc(p[:i], func(q pair) bool { return q.name == p[i].name })
		} else {
			_, twice = seen[p[i].name]
			seen[p[i].name] = struct{}{}
		}
		if twice && !mayRepeat(p[i].name, repeated) {
			return stoplog.Refuse(stoplog.ReasonDuplicateKey, "a field of the body occurs twice")
		}
	}
	return nil
}

func mayRepeat(name string, repeated []string) bool {
	return strings.HasSuffix(name, "[]") || slices.Contains(repeated, name)
}
