package connector

import (
	"bytes"
	"errors"
	"io"
	"math"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stoplog/stoplog"
)

// maxDepth is how deeply JSON may be nested. Real requests stay below 20; readers that recurse differ from here on.
const maxDepth = 128

// document is one JSON text, read once: a flat tree over the bytes, in document order.
type document struct {
	raw   []byte
	nodes []node
}

// node is one value. Its children follow it; next is the node after the last of them. Texts stay in the raw bytes.
type node struct {
	kind               jsontext.Kind // one of n f t " 0 { [
	escaped            bool          // a string with escapes
	nameEscaped        bool
	nameStart, nameEnd int32 // member name without quotes; equal when the value is no member
	start, end         int32 // raw value, quotes included
	next               int32
}

// jsonReader is what a strict parse needs, kept between parses.
type jsonReader struct {
	dec   *jsontext.Decoder
	buf   *bytes.Buffer
	doc   document
	stack []int32
}

var jsonReaders = sync.Pool{New: func() any {
	b := new(bytes.Buffer)
	return &jsonReader{dec: jsontext.NewDecoder(b), buf: b}
}}

// strict is the decoder's setting, said aloud: nothing ambiguous is accepted.
var strict = []jsontext.Options{jsontext.AllowDuplicateNames(false), jsontext.AllowInvalidUTF8(false)}

// parseJSON reads exactly one JSON value. Duplicate names (after unescaping), invalid UTF-8, lone surrogates, a byte order
// mark, a second document and nesting beyond maxDepth are errors. The document is valid until release; it keeps b.
func parseJSON(b []byte) (*jsonReader, error) {
	r := jsonReaders.Get().(*jsonReader)
	err := r.parse(b)
	if err != nil {
		r.release()
		return nil, jsonRefusal(err)
	}
	return r, nil
}

// release gives the reader back. The document and its nodes must not be used afterwards.
func (r *jsonReader) release() {
	r.doc.raw = nil
	*r.buf = bytes.Buffer{}
	if cap(r.doc.nodes) > 1<<14 {
		r.doc.nodes = nil
	}
	jsonReaders.Put(r)
}

var (
	errDepth = errors.New("nested too deeply")
	errSize  = errors.New("too large")
	errMore  = errors.New("more than one document")
)

func (r *jsonReader) parse(b []byte) error {
	r.doc.raw, r.doc.nodes, r.stack = b, r.doc.nodes[:0], r.stack[:0]
	if len(b) > math.MaxInt32 {
		return errSize
	}
	*r.buf = *bytes.NewBuffer(b)
	r.dec.Reset(r.buf, strict...)
	err := r.value(0, 0, false)
	if err != nil {
		return err
	}
	for len(r.stack) > 0 {
		err = r.step()
		if err != nil {
			return err
		}
	}
	_, err = r.dec.ReadToken()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil {
		return errMore
	}
	return err
}

// step reads the next member, element or end of the innermost object or array.
func (r *jsonReader) step() error {
	top := r.stack[len(r.stack)-1]
	kind := r.dec.PeekKind()
	if kind == '}' || kind == ']' {
		_, err := r.dec.ReadToken()
		if err != nil {
			return err
		}
		n := &r.doc.nodes[top]
		n.end, n.next = int32(r.dec.InputOffset()), int32(len(r.doc.nodes))
		r.stack = r.stack[:len(r.stack)-1]
		return nil
	}
	if r.doc.nodes[top].kind == '[' {
		return r.value(0, 0, false)
	}
	name, err := r.dec.ReadValue()
	if err != nil {
		return err
	}
	end := int32(r.dec.InputOffset()) - 1
	return r.value(end-int32(len(name))+2, end, bytes.IndexByte(name, '\\') >= 0)
}

// value reads a scalar whole, or the beginning of an object or array.
func (r *jsonReader) value(nameStart, nameEnd int32, nameEscaped bool) error {
	n := node{kind: r.dec.PeekKind(), nameStart: nameStart, nameEnd: nameEnd, nameEscaped: nameEscaped}
	i := int32(len(r.doc.nodes))
	if n.kind == '{' || n.kind == '[' {
		if len(r.stack) >= maxDepth {
			return errDepth
		}
		_, err := r.dec.ReadToken()
		if err != nil {
			return err
		}
		n.start = int32(r.dec.InputOffset()) - 1
		r.doc.nodes, r.stack = append(r.doc.nodes, n), append(r.stack, i)
		return nil
	}
	v, err := r.dec.ReadValue()
	if err != nil {
		return err
	}
	n.end = int32(r.dec.InputOffset())
	n.start, n.next = n.end-int32(len(v)), i+1
	n.escaped = n.kind == '"' && bytes.IndexByte(v, '\\') >= 0
	r.doc.nodes = append(r.doc.nodes, n)
	return nil
}

// parsePrefix reads as much of b as is whole. It serves answers that were kept only in part: what was found counts, what
// was not found is unread.
func parsePrefix(b []byte) *jsonReader {
	r := jsonReaders.Get().(*jsonReader)
	if r.parse(b) != nil {
		for _, i := range r.stack {
			r.doc.nodes[i].end, r.doc.nodes[i].next = int32(len(b)), int32(len(r.doc.nodes))
		}
		r.stack = r.stack[:0]
	}
	return r
}

func jsonRefusal(err error) error {
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return stoplog.Refuse(stoplog.ReasonDuplicateKey, "the JSON body has a member name twice in one object")
	case errors.Is(err, errDepth):
		return stoplog.Refuse(stoplog.ReasonMalformedBody, "the JSON body is nested more than 128 deep")
	case errors.Is(err, errMore):
		return stoplog.Refuse(stoplog.ReasonMalformedBody, "the body holds more than one JSON document")
	}
	e := stoplog.Refuse(stoplog.ReasonMalformedBody, "the body is not one strict JSON document in UTF-8")
	e.Err = err
	return e
}

// name is the member name of node i, as it stands.
func (d *document) nameIs(n *node, want string) bool {
	raw := d.raw[n.nameStart:n.nameEnd]
	if !n.nameEscaped {
		return string(raw) == want
	}
	return unquote(d.raw[n.nameStart-1:n.nameEnd+1]) == want
}

// text is the value of a scalar: a string without its escapes, a number as it is written, true or false.
func (d *document) text(n *node) string {
	switch {
	case n.kind != '"':
		return string(d.raw[n.start:n.end])
	case n.escaped:
		return unquote(d.raw[n.start:n.end])
	default:
		return string(d.raw[n.start+1 : n.end-1])
	}
}

// unquote removes quotes and escapes of a string that was parsed strictly before.
func unquote(quoted []byte) string {
	b, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil {
		return "" // impossible: the parse has accepted it
	}
	return string(b)
}

// root is the document's value; nil for an empty prefix.
func (d *document) root() *node {
	if len(d.nodes) == 0 {
		return nil
	}
	return &d.nodes[0]
}

// member is the named member of object i, or -1.
func (d *document) member(i int32, name string) int32 {
	if d.nodes[i].kind != '{' {
		return -1
	}
	for c := i + 1; c < d.nodes[i].next; c = d.nodes[c].next {
		if d.nameIs(&d.nodes[c], name) {
			return c
		}
	}
	return -1
}

// find is the node at a path of member names, or nil.
func (d *document) find(path ...string) *node {
	if len(d.nodes) == 0 {
		return nil
	}
	i := int32(0)
	for _, name := range path {
		i = d.member(i, name)
		if i < 0 {
			return nil
		}
	}
	return &d.nodes[i]
}

// str is the string at a path of member names; "" if there is none.
func (d *document) str(path ...string) string {
	n := d.find(path...)
	if n == nil || n.kind != '"' {
		return ""
	}
	return d.text(n)
}
