package connector

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"slices"

	"github.com/stoplog/stoplog"
)

// overrides are headers by which some servers take another method or path than the request line's.
var overrides = [...]string{
	"X-Http-Method-Override", "X-Http-Method", "X-Method-Override", "X-Original-Method", "X-Original-Url", "X-Rewrite-Url",
}

// Classify reads a request. A request that can be read in two ways, or not at all where an operation needs it, is an
// *stoplog.Error. What no operation names comes back as unnamed, in the profile's class for that.
func (p *Profile) Classify(r *Request) (*Reading, error) {
	for _, h := range overrides {
		if len(r.Header[h]) > 0 {
			return nil, stoplog.Refuse(stoplog.ReasonMethodOverride, h+" is refused: the request line says what the request does")
		}
	}
	c := classifier{p: p, r: r}
	defer c.release()
	err := c.read()
	if err != nil {
		return nil, err
	}
	op, err := c.choose()
	if err != nil {
		return nil, err
	}
	return c.reading(op)
}

// classifier is one classification.
type classifier struct {
	p      *Profile
	r      *Request
	in     input
	plain  []byte // body without its coding
	leaves []*leaf
	json   *jsonReader
	rpc    *RPC
	pathAr [16]string
	leafAr [4]*leaf
}

func (c *classifier) release() {
	if c.json != nil {
		c.json.release()
	}
}

// read finds the operations of the path and decodes what they need.
func (c *classifier) read() error {
	var err error
	c.in.header = c.r.Header
	c.in.query, err = parseQuery(c.r.RawQuery)
	if err != nil {
		return err
	}
	for i := range c.in.query {
		if c.in.query[i].name == "_method" {
			return stoplog.Refuse(stoplog.ReasonMethodOverride, "the query argument _method is refused: the request line says what the request does")
		}
	}
	var ok bool
	c.in.path, ok = splitPath(c.r.Path, c.pathAr[:0])
	if !ok {
		return stoplog.Refuse(stoplog.ReasonAmbiguousPath, "the path has a malformed percent-encoding or text that is not UTF-8")
	}
	c.leaves = c.p.index.find(c.in.path, c.leafAr[:0])
	c.plain, err = inspectable(c.r.Header, c.r.Body)
	if err != nil {
		return err
	}
	return c.decode()
}

// decode reads the body as the candidates need it.
func (c *classifier) decode() error {
	accepted, reads, own := c.demand()
	m, err := requestMedia(c.r.Header)
	if err != nil {
		return err
	}
	if len(c.plain) == 0 {
		return nil
	}
	if (c.r.Method == http.MethodGet || c.r.Method == http.MethodHead) && !own {
		return stoplog.Refuse(stoplog.ReasonMalformedBody, "a "+c.r.Method+" request must have no body")
	}
	c.in.body, err = chooseBody(accepted, m, reads)
	if err != nil {
		return err
	}
	var repeated []string
	switch c.in.body {
	case BodyJSON, BodyJSONRPC:
		c.json, err = parseJSON(c.plain)
		if err != nil {
			return err
		}
		c.in.doc = &c.json.doc
		if c.in.body == BodyJSONRPC {
			c.rpc, err = parseRPC(c.in.doc)
		} else if reads && c.in.doc.root().kind != '{' {
			err = stoplog.Refuse(stoplog.ReasonMalformedBody, "this operation takes one JSON object")
		}
	case BodyForm:
		repeated = c.repeated()
		c.in.fields, err = parseForm(c.plain, repeated)
	case BodyMultipart:
		repeated = c.repeated()
		c.in.fields, err = parseMultipart(c.plain, m.boundary, repeated)
	default: // nothing to read, or nothing that is read
	}
	if err != nil {
		return err
	}
	for i := range c.in.fields {
		if c.in.fields[i].name == "_method" {
			return stoplog.Refuse(stoplog.ReasonMethodOverride, "the form field _method is refused: the request line says what the request does")
		}
	}
	return nil
}

// eachCandidate calls f with every operation whose path and method fit.
func (c *classifier) eachCandidate(f func(int32, *operation)) {
	visit := func(ops []int32) {
		for _, i := range ops {
			o := &c.p.ops[i]
			if len(o.Methods) == 0 || slices.Contains(o.Methods, c.r.Method) {
				f(i, o)
			}
		}
	}
	for _, l := range c.leaves {
		visit(l.ops)
		if c.rpc != nil && c.rpc.Tool != "" {
			visit(l.tools[c.rpc.Tool])
		}
	}
}

// demand is the forms of body that the candidates accept, whether one of them reads it, and whether one names its forms.
func (c *classifier) demand() (accepted []Body, reads, own bool) {
	found, shared := false, false
	c.eachCandidate(func(_ int32, o *operation) {
		found = true
		reads = reads || o.readsBody
		own = own || o.ownBodies
		switch {
		case accepted == nil:
			accepted, shared = o.accepted, true
		case !slices.Equal(accepted, o.accepted):
			if shared { // do not append to the profile's own
				accepted, shared = slices.Clone(accepted), false
			}
			for _, b := range o.accepted {
				if !slices.Contains(accepted, b) {
					accepted = append(accepted, b)
				}
			}
		}
	})
	for _, l := range c.leaves {
		if l.tools != nil { // operations that are found by their tool need the body to be found
			return c.p.bodies, true, own
		}
	}
	if !found {
		accepted = c.p.bodies
		reads = slices.Contains(accepted, BodyJSONRPC)
	}
	return accepted, reads, own
}

func (c *classifier) repeated() []string {
	var out []string
	c.eachCandidate(func(_ int32, o *operation) { out = append(out, o.RepeatedFields...) })
	return out
}

// choose is the first operation that takes the request, or the unnamed one.
func (c *classifier) choose() (*operation, error) {
	var room [16]int32
	candidates := room[:0]
	c.eachCandidate(func(i int32, o *operation) {
		if o.takesRPC(c.rpc) {
			candidates = append(candidates, i)
		}
	})
	if len(candidates) > 1 {
		slices.Sort(candidates)
	}
next:
	for _, i := range candidates {
		o := &c.p.ops[i]
		c.in.tmpl = o.tmpl
		for k := range o.when {
			ok, err := o.when[k].holds(&c.in)
			if err != nil {
				return nil, err
			}
			if !ok {
				continue next
			}
		}
		return o, nil
	}
	return &c.p.unnamed, nil
}

// reading fills the effect from the chosen operation's sources.
func (c *classifier) reading(o *operation) (*Reading, error) {
	rd := &Reading{profile: c.p, op: o, RPC: c.rpc, Body: c.in.body, Listen: o.Listen, Template: c.template(o)}
	e := &rd.Effect
	e.Connector, e.Class, e.Action = c.p.name, o.Class, o.Action
	e.Unnamed = o == &c.p.unnamed
	e.Retry, e.Irreversible = o.retry, o.Irreversible
	if o.ownBodies && len(c.plain) > 0 && o.readsBody && !slices.Contains(o.accepted, c.in.body) {
		return nil, stoplog.Refuse(stoplog.ReasonMalformedBody, "this operation takes "+names(o.accepted))
	}
	err := c.fill(o, rd)
	if err != nil {
		return nil, err
	}
	if h := o.idempotency.Header; h != "" {
		e.Idempotency.Header, e.Idempotency.Window = h, o.idempotency.Window
		keys := c.r.Header[http.CanonicalHeaderKey(h)]
		if len(keys) > 1 {
			return nil, stoplog.Refuse(stoplog.ReasonMalformedHeader, h+" occurs twice")
		}
		if len(keys) == 1 {
			e.Idempotency.Key = keys[0]
		}
	}
	return rd, nil
}

func (c *classifier) template(o *operation) string {
	if o == &c.p.unnamed || c.rpc == nil {
		return o.Path
	}
	if c.rpc.Tool != "" {
		return c.rpc.Method + " " + clip(c.rpc.Tool, 64)
	}
	return clip(c.rpc.Method, 64)
}

func (c *classifier) fill(o *operation, rd *Reading) error {
	c.in.tmpl = o.tmpl
	e := &rd.Effect
	var err error
	e.Recipients, err = c.set(o.recipients)
	if err != nil {
		return err
	}
	if e.Class == stoplog.ClassMessage && len(e.Recipients) == 0 && !e.Unnamed {
		return stoplog.Refuse(stoplog.ReasonMalformedBody, "this message names no recipient where one is read")
	}
	e.Citations, err = c.set(o.citations)
	if err != nil {
		return err
	}
	for i := range o.thread {
		e.Thread, err = o.thread[i].first(&c.in)
		if err != nil {
			return err
		}
		if e.Thread != "" {
			break
		}
	}
	if o.amount != nil {
		e.Amount, err = o.amount.read(&c.in)
		if err != nil {
			return err
		}
	}
	if o.model != nil {
		e.Model, err = c.model(o.model)
		if err != nil {
			return err
		}
	}
	rd.Key, err = c.key(o)
	return err
}

// set is all values of the sources, sorted and unique.
func (c *classifier) set(sources []source) ([]string, error) {
	var out []string
	var err error
	for i := range sources {
		out, err = sources[i].values(&c.in, out)
		if err != nil {
			return nil, err
		}
	}
	if len(out) > 1 {
		slices.Sort(out)
		out = slices.Compact(out)
	}
	return out, nil
}

// key is a digest over the action and the values of the key's sources, each with its length, so that no two lists give one
// key.
func (c *classifier) key(o *operation) (string, error) {
	if len(o.key) == 0 {
		return "", nil
	}
	b := appendItem(make([]byte, 0, 256), o.Action)
	var room [4]string
	for i := range o.key {
		v, err := o.key[i].values(&c.in, room[:0])
		if err != nil {
			return "", err
		}
		b = binary.AppendUvarint(b, uint64(len(v)))
		for _, s := range v {
			b = appendItem(b, s)
		}
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

func appendItem(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
