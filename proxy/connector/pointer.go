package connector

import (
	"fmt"
	"strconv"
	"strings"
)

// pointer is a JSON Pointer whose "*" stands for every element or member.
type pointer []pointerToken

type pointerToken struct {
	name  string
	index int // -1 = not a number
	any   bool
}

func parsePointer(s string) (pointer, error) {
	if !strings.HasPrefix(s, "/") {
		return nil, fmt.Errorf("JSON Pointer %q: want a leading /", s)
	}
	var p pointer
	for tok := range strings.SplitSeq(s[1:], "/") {
		for i := range len(tok) {
			if tok[i] == '~' && (i+1 == len(tok) || tok[i+1] != '0' && tok[i+1] != '1') {
				return nil, fmt.Errorf("JSON Pointer %q: ~ must be written ~0", s)
			}
		}
		t := pointerToken{name: strings.ReplaceAll(strings.ReplaceAll(tok, "~1", "/"), "~0", "~"), index: -1, any: tok == "*"}
		n, err := strconv.ParseUint(tok, 10, 31)
		if err == nil && (tok == "0" || tok[0] != '0') {
			t.index = int(n)
		}
		p = append(p, t)
	}
	return p, nil
}

// each calls f with the index of every node of d that p points at, in document order, until f returns false. It reports whether it went
// through to the end.
func (p pointer) each(d *document, f func(int32) bool) bool {
	if len(d.nodes) == 0 {
		return true
	}
	return p.walk(d, 0, f)
}

func (p pointer) walk(d *document, i int32, f func(int32) bool) bool {
	n := &d.nodes[i]
	if len(p) == 0 {
		return f(i)
	}
	if n.kind != '{' && n.kind != '[' {
		return true
	}
	t := &p[0]
	at := 0
	for c := i + 1; c < n.next; c = d.nodes[c].next {
		switch {
		case t.any:
			if !p[1:].walk(d, c, f) {
				return false
			}
		case n.kind == '{':
			if d.nameIs(&d.nodes[c], t.name) {
				return p[1:].walk(d, c, f)
			}
		case at == t.index:
			return p[1:].walk(d, c, f)
		}
		at++
	}
	return true
}
