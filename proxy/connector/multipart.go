package connector

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/stoplog/stoplog"
)

// maxPartHeader bounds the header of one part.
const maxPartHeader = 8 << 10

// parseMultipart reads multipart/form-data (RFC 7578) strictly, so that no server can see other parts: the final boundary is
// there, nothing stands before the first or after the last but one line end, every part has exactly one
// Content-Disposition "form-data" with one name, no header is repeated or folded, and no file name comes in two spellings
// (filename and filename*). It does not use mime/multipart, which forgives all of these.
func parseMultipart(body []byte, boundary string, repeated []string) ([]pair, error) {
	p, why := splitParts(body, boundary)
	if why != "" {
		return nil, stoplog.Refuse(stoplog.ReasonMalformedBody, "the multipart body "+why)
	}
	return p, uniqueFields(p, repeated)
}

func splitParts(body []byte, boundary string) ([]pair, string) {
	if !validBoundary(boundary) {
		return nil, "has no usable boundary"
	}
	dash := []byte("--" + boundary)
	if !bytes.HasPrefix(body, dash) {
		return nil, "does not begin with its boundary"
	}
	rest := body[len(dash):]
	next := []byte("\r\n--" + boundary)
	var out []pair
	for {
		if bytes.HasPrefix(rest, []byte("--")) {
			if len(rest) > 2 && string(rest[2:]) != "\r\n" {
				return nil, "goes on after its final boundary"
			}
			return out, ""
		}
		if !bytes.HasPrefix(rest, []byte("\r\n")) {
			return nil, "has a boundary that is followed by other text"
		}
		if len(out) == maxFields {
			return nil, "has more than 2000 parts"
		}
		// The line end before a boundary belongs to it, so a part without a header begins with the boundary's own.
		end := bytes.Index(rest, next)
		if end < 0 {
			return nil, "has no final boundary"
		}
		part, why := readPart(rest[2:max(end, 2)], end)
		if why != "" {
			return nil, why
		}
		out = append(out, part)
		rest = rest[end+len(next):]
	}
}

func readPart(b []byte, end int) (pair, string) {
	var p pair
	if end < 2 {
		return p, "has a part without a header"
	}
	i := bytes.Index(b, []byte("\r\n\r\n"))
	if i < 0 {
		return p, "has a part without an end of its header"
	}
	if i > maxPartHeader {
		return p, "has a part with a header over 8 KiB"
	}
	seen := map[string]bool{}
	for line := range bytes.SplitSeq(b[:i], []byte("\r\n")) {
		name, value, ok := strings.Cut(string(line), ":")
		name = strings.ToLower(name)
		switch {
		case !ok || !isToken(name):
			return p, "has a malformed part header"
		case seen[name]:
			return p, "repeats a part header"
		case !utf8.ValidString(value) || strings.ContainsFunc(value, isControl):
			return p, "has a part header that is not clean UTF-8"
		}
		seen[name] = true
		why := ""
		switch name {
		case "content-disposition":
			p.name, p.file, why = disposition(value)
		case "content-transfer-encoding":
			if v := strings.ToLower(strings.TrimSpace(value)); v != "binary" && v != "8bit" && v != "7bit" {
				why = "uses a transfer encoding"
			}
		}
		if why != "" {
			return p, why
		}
	}
	if p.name == "" {
		return p, "has a part without a name"
	}
	if !p.file {
		p.value = string(b[i+4:])
		if !utf8.ValidString(p.value) {
			return p, "has a field that is not UTF-8"
		}
	}
	return p, ""
}

// disposition reads `form-data; name="x"; filename="y"`.
func disposition(v string) (string, bool, string) {
	kind, params, ok := parseParams(v)
	if !ok || !strings.EqualFold(kind, "form-data") {
		return "", false, "has a malformed Content-Disposition"
	}
	name, file := "", false
	for _, p := range params {
		switch p.name {
		case "name":
			name = p.value
		case "filename":
			file = true
		default: // filename* and name* are second spellings, and whatever else is no part of RFC 7578
			return "", false, "has a Content-Disposition parameter besides name and filename"
		}
	}
	return name, file, ""
}

// parseParams reads `value; name=token; name="quoted"`. A name that occurs twice, and anything left over, is an error.
func parseParams(s string) (string, []pair, bool) {
	head, rest, more := strings.Cut(s, ";")
	head = strings.TrimSpace(head)
	var out []pair
	for more {
		rest = strings.TrimLeft(rest, " \t")
		name, after, ok := strings.Cut(rest, "=")
		name = strings.ToLower(name)
		if !ok || !isToken(name) {
			return "", nil, false
		}
		var value string
		value, rest, ok = paramValue(after)
		for _, p := range out {
			ok = ok && p.name != name
		}
		if !ok {
			return "", nil, false
		}
		out = append(out, pair{name: name, value: value})
		rest = strings.TrimLeft(rest, " \t")
		more = rest != ""
		if more && rest[0] != ';' {
			return "", nil, false
		}
		if more {
			rest = rest[1:]
			more = strings.Trim(rest, " \t") != "" // a trailing ";" is harmless
		}
	}
	return head, out, true
}

func paramValue(s string) (string, string, bool) {
	if !strings.HasPrefix(s, `"`) {
		i := strings.IndexAny(s, "; \t")
		if i < 0 {
			i = len(s)
		}
		return s[:i], s[i:], isToken(s[:i])
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:], true
		case '\\':
			// Browsers write file names with a bare backslash, servers drop it or keep it: two readings.
			if i+1 == len(s) || s[i+1] != '"' && s[i+1] != '\\' {
				return "", "", false
			}
			i++
		}
		b.WriteByte(s[i])
	}
	return "", "", false
}

func validBoundary(s string) bool {
	if s == "" || len(s) > 70 || s[len(s)-1] == ' ' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("'()+_,-./:=? ", c) >= 0) {
			return false
		}
	}
	return true
}

func isToken(s string) bool {
	if s == "" {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`()<>@,;:\"/[]?={}`, c) >= 0 {
			return false
		}
	}
	return true
}
