package connector

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/stoplog/stoplog"
)

// input is what the sources of one message read: a request, or an answer.
type input struct {
	header http.Header
	query  []pair
	body   Body      // what the body was read as
	doc    *document // of BodyJSON and BodyJSONRPC
	fields []pair    // of BodyForm and BodyMultipart
	path   []string  // decoded segments
	tmpl   []segment // of the operation under judgment
	partly bool      // the document is only the beginning of the body
}

type place uint8

const (
	placeJSON place = iota
	placeForm
	placeField
	placeQuery
	placeHeader
	placePath
	placeText
)

// source is a compiled Source.
type source struct {
	place      place
	name       string
	label      string // for refusals: "field channel"
	ptr        pointer
	prefix     string // of a form name with "*"
	suffix     string
	glob       bool
	text       []segment
	transforms []transform
	required   bool
	raw        bool
}

// readsBody reports whether the source can only be answered after the body was read.
func (s *source) readsBody() bool { return s.place <= placeField }

func compileSource(s *Source) (source, error) {
	out := source{required: s.Required, raw: s.Raw}
	n := 0
	for i, v := range [...]string{s.JSON, s.Form, s.Field, s.Query, s.Header, s.Path, s.Text} {
		if v != "" {
			out.place, out.name = place(i), v
			n++
		}
	}
	if n != 1 {
		return out, fmt.Errorf("want exactly one of json, form, field, query, header, path, text")
	}
	out.label = [...]string{"json ", "form field ", "field ", "query argument ", "header ", "path variable ", "text "}[out.place] + out.name
	var err error
	switch out.place {
	case placeJSON:
		out.ptr, err = parsePointer(s.JSON)
	case placeForm:
		out.prefix, out.suffix, out.glob = strings.Cut(s.Form, "*")
	case placeHeader:
		out.name = http.CanonicalHeaderKey(s.Header)
	case placeText:
		out.text, err = parseText(s.Text)
	default: // the name is all
	}
	if err != nil {
		return out, err
	}
	out.transforms, err = compileTransforms(s.Transforms)
	return out, err
}

// parseText splits "issues/{owner}/{repo}" into plain text and variables.
func parseText(s string) ([]segment, error) {
	var out []segment
	for s != "" {
		plain, rest, ok := strings.Cut(s, "{")
		if plain != "" {
			out = append(out, segment{text: plain})
		}
		if !ok {
			break
		}
		name, rest, ok := strings.Cut(rest, "}")
		if !ok || !isVariable(name) {
			return nil, fmt.Errorf("text %q: want {variable}", s)
		}
		out = append(out, segment{name: name})
		s = rest
	}
	return out, nil
}

// variables are the path variables that the source names.
func (s *source) variables() []string {
	if s.place == placePath {
		return []string{s.name}
	}
	var out []string
	for i := range s.text {
		if s.text[i].name != "" {
			out = append(out, s.text[i].name)
		}
	}
	return out
}

// values appends what stands at the source, transformed; empty texts count as absent. A required source without a value,
// and structure where text is expected, are refused.
func (s *source) values(in *input, dst []string) ([]string, error) {
	from := len(dst)
	dst, err := s.read(in, dst)
	if err != nil {
		return dst, err
	}
	for i := range s.transforms {
		dst = s.transforms[i].apply(dst, from)
	}
	kept := dst[:from]
	for _, v := range dst[from:] {
		if v != "" {
			kept = append(kept, v)
		}
	}
	if s.required && len(kept) == from {
		return kept, stoplog.Refuse(stoplog.ReasonMalformedBody, "this operation needs "+s.label)
	}
	return kept, nil
}

// first is the first value, or "".
func (s *source) first(in *input) (string, error) {
	var room [4]string
	v, err := s.values(in, room[:0])
	if err != nil || len(v) == 0 {
		return "", err
	}
	return v[0], nil
}

func (s *source) read(in *input, dst []string) ([]string, error) {
	switch s.place {
	case placeJSON:
		return s.fromJSON(in, dst)
	case placeForm:
		return s.fromForm(in, dst)
	case placeField:
		return s.fromField(in, dst)
	case placeQuery:
		return s.fromQuery(in, dst)
	case placeHeader:
		return append(dst, in.header[s.name]...), nil
	case placePath:
		v, ok := pathVariable(in, s.name)
		if ok {
			dst = append(dst, v)
		}
		return dst, nil
	default:
		return append(dst, s.expand(in)), nil
	}
}

func (s *source) fromJSON(in *input, dst []string) ([]string, error) {
	if in.doc == nil {
		return dst, nil
	}
	ok := s.ptr.each(in.doc, func(i int32) bool {
		var ok bool
		dst, ok = s.scalar(in.doc, i, dst)
		return ok
	})
	if !ok {
		return dst, s.notText()
	}
	return dst, nil
}

func (s *source) notText() error {
	return stoplog.Refuse(stoplog.ReasonMalformedBody, s.label+" is not text, a number, true or false")
}

// scalar appends a value; an array of scalars counts as its elements. It reports false for deeper structure.
func (s *source) scalar(d *document, at int32, dst []string) ([]string, bool) {
	n := &d.nodes[at]
	switch {
	case n.kind == 'n':
		return dst, true
	case s.raw:
		return append(dst, string(d.raw[n.start:n.end])), true
	case n.kind == '{':
		return dst, false
	case n.kind != '[':
		return append(dst, d.text(n)), true
	}
	for i := at + 1; i < n.next; i = d.nodes[i].next {
		c := &d.nodes[i]
		if c.kind == '{' || c.kind == '[' {
			return dst, false
		}
		if c.kind != 'n' {
			dst = append(dst, d.text(c))
		}
	}
	return dst, true
}

func (s *source) fromForm(in *input, dst []string) ([]string, error) {
	for i := range in.fields {
		f := &in.fields[i]
		if f.name != s.name && !s.matchesGlob(f.name) {
			continue
		}
		if f.file {
			return dst, s.notText()
		}
		dst = append(dst, f.value)
	}
	return dst, nil
}

func (s *source) matchesGlob(name string) bool {
	return s.glob && len(name) >= len(s.prefix)+len(s.suffix) &&
		strings.HasPrefix(name, s.prefix) && strings.HasSuffix(name, s.suffix)
}

// fromField looks in the query and in the body. A server that merges both takes one of them; which one is not known here.
func (s *source) fromField(in *input, dst []string) ([]string, error) {
	from := len(dst)
	dst, err := s.fromQuery(in, dst)
	if err != nil {
		return dst, err
	}
	inQuery := len(dst) > from
	if in.doc != nil {
		i := int32(-1)
		if len(in.doc.nodes) > 0 {
			i = in.doc.member(0, s.name)
		}
		if i >= 0 {
			if inQuery {
				return dst, s.twice()
			}
			var ok bool
			dst, ok = s.scalar(in.doc, i, dst)
			if !ok {
				return dst, s.notText()
			}
		}
	}
	for i := range in.fields {
		if in.fields[i].name != s.name {
			continue
		}
		if inQuery {
			return dst, s.twice()
		}
		if in.fields[i].file {
			return dst, s.notText()
		}
		dst = append(dst, in.fields[i].value)
	}
	return dst, nil
}

func (s *source) twice() error {
	return stoplog.Refuse(stoplog.ReasonAmbiguousQuery, s.label+" is given twice; servers differ in which one they take")
}

func (s *source) fromQuery(in *input, dst []string) ([]string, error) {
	from := len(dst)
	for i := range in.query {
		if in.query[i].name != s.name {
			continue
		}
		if len(dst) > from && !strings.HasSuffix(s.name, "[]") {
			return dst, s.twice()
		}
		dst = append(dst, in.query[i].value)
	}
	return dst, nil
}

// pathVariable is the value of a variable of the operation's template.
func pathVariable(in *input, name string) (string, bool) {
	for i := range in.tmpl {
		t := &in.tmpl[i]
		if t.name != name {
			continue
		}
		if t.tail {
			if i >= len(in.path) {
				return "", true
			}
			return strings.Join(in.path[i:], "/"), true
		}
		return t.match(in.path[i])
	}
	return "", false
}

func (s *source) expand(in *input) string {
	var b strings.Builder
	for i := range s.text {
		b.WriteString(s.text[i].text)
		if s.text[i].name != "" {
			v, _ := pathVariable(in, s.text[i].name)
			b.WriteString(v)
		}
	}
	return b.String()
}

// condition is a compiled Condition.
type condition struct {
	source   source
	equals   []string
	prefixes []string
	absent   bool
}

func compileCondition(c *Condition) (condition, error) {
	tests := 0
	for _, set := range [...]bool{len(c.Equals) > 0, len(c.Prefixes) > 0, c.Absent} {
		if set {
			tests++
		}
	}
	if tests > 1 {
		return condition{}, fmt.Errorf("use one of equals, prefixes, absent")
	}
	s, err := compileSource(&c.Source)
	return condition{source: s, equals: c.Equals, prefixes: c.Prefixes, absent: c.Absent}, err
}

// holds evaluates the condition. Where several values stand, all must pass, so that one harmless value does not speak for
// the others.
func (c *condition) holds(in *input) (bool, error) {
	var room [8]string
	v, err := c.source.values(in, room[:0])
	if err != nil {
		return false, err
	}
	if c.absent || len(v) == 0 {
		return c.absent && len(v) == 0 && !(in.partly && c.source.readsBody()), nil
	}
	for _, s := range v {
		if len(c.equals) > 0 && !slices.Contains(c.equals, s) {
			return false, nil
		}
		if len(c.prefixes) > 0 && !slices.ContainsFunc(c.prefixes, func(p string) bool { return strings.HasPrefix(s, p) }) {
			return false, nil
		}
	}
	return true, nil
}
