package connector

import (
	"fmt"
	"slices"
	"strings"
)

// maxSegments is how many segments a path may have before it stops matching anything but a tail.
const maxSegments = 32

// segment is one part of a path template: plain text, or one variable with text around it.
type segment struct {
	text           string // plain text
	name           string // variable; "" = plain
	prefix, suffix string // around the variable
	tail           bool   // {name=**}: all that follows
}

// parseTemplate reads "/repos/{owner}/{repo}/issues", "/models/{model}:embed" or "/files/{path=**}".
func parseTemplate(s string) ([]segment, error) {
	if !strings.HasPrefix(s, "/") {
		return nil, fmt.Errorf("%q: want a leading /", s)
	}
	var out []segment
	var names []string
	parts := strings.Split(s[1:], "/")
	for i, part := range parts {
		seg, err := parseSegment(part)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", s, err)
		}
		if seg.tail && i != len(parts)-1 {
			return nil, fmt.Errorf("%q: {%s=**} must come last", s, seg.name)
		}
		if seg.name != "" {
			if slices.Contains(names, seg.name) {
				return nil, fmt.Errorf("%q: {%s} occurs twice", s, seg.name)
			}
			names = append(names, seg.name)
		}
		out = append(out, seg)
	}
	if len(out) > maxSegments {
		return nil, fmt.Errorf("%q: more than %d segments", s, maxSegments)
	}
	return out, nil
}

func parseSegment(s string) (segment, error) {
	open := strings.IndexByte(s, '{')
	if open < 0 {
		if strings.ContainsAny(s, "}*%") {
			return segment{}, fmt.Errorf("segment %q: write text unescaped and variables as {name}", s)
		}
		return segment{text: s}, nil
	}
	end := strings.IndexByte(s, '}')
	if end < open || strings.ContainsAny(s[end+1:], "{}") {
		return segment{}, fmt.Errorf("segment %q: want one {variable}", s)
	}
	seg := segment{name: s[open+1 : end], prefix: s[:open], suffix: s[end+1:]}
	if name, ok := strings.CutSuffix(seg.name, "=**"); ok {
		seg.name, seg.tail = name, true
		if seg.prefix != "" || seg.suffix != "" {
			return segment{}, fmt.Errorf("segment %q: {%s=**} stands alone", s, name)
		}
	}
	if !isVariable(seg.name) {
		return segment{}, fmt.Errorf("segment %q: a variable is a lower-case letter, then letters, digits and _", s)
	}
	return seg, nil
}

func isVariable(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || i > 0 && (c >= '0' && c <= '9' || c == '_')) {
			return false
		}
	}
	return s != "" && len(s) <= 32
}

// match reports whether the segment takes this decoded text, and the variable's value.
func (s *segment) match(text string) (string, bool) {
	if s.name == "" {
		return "", s.text == text
	}
	if len(text) <= len(s.prefix)+len(s.suffix) || !strings.HasPrefix(text, s.prefix) || !strings.HasSuffix(text, s.suffix) {
		return "", false
	}
	return text[len(s.prefix) : len(text)-len(s.suffix)], true
}

// splitPath gives the decoded segments of an escaped path. Encoded slashes do not split. ok is false for a malformed
// percent-encoding.
func splitPath(escaped string, dst []string) ([]string, bool) {
	escaped = strings.TrimPrefix(escaped, "/")
	for {
		part := escaped
		i := strings.IndexByte(escaped, '/')
		if i >= 0 {
			part = escaped[:i]
		}
		if strings.IndexByte(part, '%') >= 0 {
			plain, ok := percentDecode(part, false)
			if !ok {
				return dst, false
			}
			part = plain
		}
		dst = append(dst, part)
		if i < 0 {
			return dst, true
		}
		escaped = escaped[i+1:]
	}
}

// index finds the operations whose path template takes a path. It is a tree over segments: the work depends on the depth of
// the path and not on the number of operations.
type index struct{ root treeNode }

type treeNode struct {
	text  map[string]*treeNode
	vars  []varEdge
	here  leaf // templates that end here
	tails leaf // templates that take all that follows
}

type varEdge struct {
	prefix, suffix string
	to             *treeNode
}

// leaf is the operations of one template. Those that only name exact tools are found by the tool.
type leaf struct {
	ops   []int32
	tools map[string][]int32
}

func (ix *index) add(t []segment, op int32, tools []string) {
	n := &ix.root
	for i := range t {
		if t[i].tail {
			n.tails.add(op, tools)
			return
		}
		n = n.child(&t[i])
	}
	n.here.add(op, tools)
}

func (n *treeNode) child(s *segment) *treeNode {
	if s.name == "" {
		if n.text == nil {
			n.text = map[string]*treeNode{}
		}
		c := n.text[s.text]
		if c == nil {
			c = &treeNode{}
			n.text[s.text] = c
		}
		return c
	}
	for i := range n.vars {
		if n.vars[i].prefix == s.prefix && n.vars[i].suffix == s.suffix {
			return n.vars[i].to
		}
	}
	c := &treeNode{}
	n.vars = append(n.vars, varEdge{s.prefix, s.suffix, c})
	return c
}

func (l *leaf) add(op int32, tools []string) {
	if len(tools) == 0 || slices.ContainsFunc(tools, func(s string) bool { return strings.HasSuffix(s, "*") }) {
		l.ops = append(l.ops, op)
		return
	}
	if l.tools == nil {
		l.tools = map[string][]int32{}
	}
	for _, t := range tools {
		l.tools[t] = append(l.tools[t], op)
	}
}

// find adds the leaves that take the path.
func (ix *index) find(path []string, dst []*leaf) []*leaf {
	if len(path) > maxSegments {
		return ix.root.findTail(dst)
	}
	return ix.root.find(path, dst)
}

func (n *treeNode) findTail(dst []*leaf) []*leaf {
	if n.tails.ops != nil || n.tails.tools != nil {
		dst = append(dst, &n.tails)
	}
	return dst
}

func (n *treeNode) find(path []string, dst []*leaf) []*leaf {
	dst = n.findTail(dst)
	if len(path) == 0 {
		if n.here.ops != nil || n.here.tools != nil {
			dst = append(dst, &n.here)
		}
		return dst
	}
	if c := n.text[path[0]]; c != nil {
		dst = c.find(path[1:], dst)
	}
	for i := range n.vars {
		s := segment{name: "v", prefix: n.vars[i].prefix, suffix: n.vars[i].suffix}
		if _, ok := s.match(path[0]); ok {
			dst = n.vars[i].to.find(path[1:], dst)
		}
	}
	return dst
}
