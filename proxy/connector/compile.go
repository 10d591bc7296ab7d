package connector

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stoplog/stoplog"
)

// Profile is a compiled Spec. It is immutable and safe for concurrent use.
type Profile struct {
	name          string
	shape         Shape
	bodies        []Body
	unnamed       operation
	ops           []operation
	index         index
	effectHeaders []string
	linkHeaders   []string
	answers       []answerRule
	answerForm    AnswerForm
	providerIDs   []source
	cool          []source
}

// operation is a compiled Operation.
type operation struct {
	Operation
	tmpl        []segment
	accepted    []Body
	ownBodies   bool
	readsBody   bool // conditions or sources need the body
	when        []condition
	recipients  []source
	citations   []source
	thread      []source
	key         []source
	amount      *amountSource
	model       *modelSource
	retry       stoplog.RetrySafety
	idempotency Idempotency
	answers     []answerRule
	providerIDs []source
}

type amountSource struct {
	value, currency source
	minor           bool
}

type modelSource struct {
	name      source
	maxOutput []source
	choices   *source
	stream    *source
	streams   bool
	usage     UsageFormat
}

// Name is the profile's name.
func (p *Profile) Name() string { return p.name }

// Shape says how refusals look to the vendor's SDK.
func (p *Profile) Shape() Shape { return p.shape }

// LinkHeaders are answer headers, besides Link, Location and Content-Location, whose URLs are mapped to the local URL.
func (p *Profile) LinkHeaders() []string { return p.linkHeaders }

// EffectHeaders are request headers, besides Content-Type, that belong to the effect's digest; canonical form.
func (p *Profile) EffectHeaders() []string { return p.effectHeaders }

// Actions are the actions that the profile names, in its order, each once.
func (p *Profile) Actions() []string {
	var out []string
	for i := range p.ops {
		if !slices.Contains(out, p.ops[i].Action) {
			out = append(out, p.ops[i].Action)
		}
	}
	return out
}

// Compile checks a profile and prepares it. An error names the field: `operations[3].path: …`.
func Compile(s Spec) (*Profile, error) {
	p := &Profile{
		name: s.Name, shape: s.Shape, bodies: s.Bodies, answerForm: s.AnswerForm,
		effectHeaders: canonical(s.EffectHeaders), linkHeaders: canonical(s.LinkHeaders),
	}
	if s.Name == "" {
		return nil, errors.New("name: required")
	}
	if len(p.bodies) == 0 {
		p.bodies = []Body{BodyJSON}
	}
	class := s.UnnamedClass
	switch class {
	case stoplog.ClassUnspecified:
		class = stoplog.ClassWrite
	case stoplog.ClassWrite, stoplog.ClassMessage:
	default:
		return nil, fmt.Errorf("unnamed_class: %s: want write or message; what is not named is never milder", class)
	}
	p.unnamed = operation{Operation: Operation{Action: Unnamed, Class: class}, accepted: p.bodies}
	if s.Idempotency != nil {
		p.unnamed.idempotency = *s.Idempotency
		p.effectHeaders = appendUnique(p.effectHeaders, http.CanonicalHeaderKey(s.Idempotency.Header))
	}
	var err error
	p.answers, err = compileRules("answers", s.Answers)
	if err != nil {
		return nil, err
	}
	p.providerIDs, err = compileSources("provider_ids", s.ProviderIDs, answerPlace)
	if err != nil {
		return nil, err
	}
	p.cool, err = compileCool(s.Cool)
	if err != nil {
		return nil, err
	}
	p.ops = make([]operation, len(s.Operations))
	for i := range s.Operations {
		err := p.compileOperation(&p.ops[i], &s.Operations[i], s.Idempotency)
		if err != nil {
			return nil, fmt.Errorf("operations[%d].%w", i, err)
		}
		p.index.add(p.ops[i].tmpl, int32(i), s.Operations[i].Tools)
	}
	return p, nil
}

// Unnamed is the action of an operation that the profile does not name.
const Unnamed = "unnamed"

func (p *Profile) compileOperation(o *operation, s *Operation, idem *Idempotency) error {
	o.Operation, o.accepted = *s, p.bodies
	if len(s.Bodies) > 0 {
		o.accepted, o.ownBodies = s.Bodies, true
	}
	err := o.check()
	if err != nil {
		return err
	}
	o.tmpl, err = parseTemplate(s.Path)
	if err != nil {
		return fmt.Errorf("path: %w", err)
	}
	err = o.compileSources()
	if err != nil {
		return err
	}
	if s.Idempotency != nil {
		idem = s.Idempotency
	}
	if idem != nil && s.Class.Durable() {
		o.idempotency = *idem
		p.effectHeaders = appendUnique(p.effectHeaders, http.CanonicalHeaderKey(idem.Header))
	}
	switch s.Retry {
	case RetryNever:
		o.retry = stoplog.RetryNever
	case RetryKeyed:
		if o.idempotency.Header == "" {
			return errors.New("retry: KEYED needs an idempotency header")
		}
		o.retry = stoplog.RetryKeyed
	case RetrySafe:
		o.retry = stoplog.RetrySafe
	default:
		o.retry = defaultRetry(s.Class, o.idempotency)
	}
	o.answers, err = compileRules("answers", s.Answers)
	return err
}

func defaultRetry(c stoplog.Class, idem Idempotency) stoplog.RetrySafety {
	switch {
	case !c.Durable():
		return stoplog.RetrySafe
	case idem.Header != "":
		return stoplog.RetryKeyed
	}
	return stoplog.RetryNever
}

// check holds what the schema's rules say, too: a Spec may come from elsewhere.
func (o *operation) check() error {
	switch {
	case o.Action == "" || o.Action == Unnamed:
		return errors.New("action: required")
	case o.Class < stoplog.ClassRead || o.Class > stoplog.ClassMessage:
		return errors.New("class: required")
	case o.Class == stoplog.ClassMessage && len(o.Recipients) == 0:
		return errors.New("recipients: a message needs them")
	case (o.Class == stoplog.ClassModel) != (o.Model != nil):
		return errors.New("model: needed for class model, and only there")
	case len(o.Methods) == 0 && !o.Class.Durable():
		return errors.New("methods: needed for a read and a model call")
	case len(o.Tools) > 0 && !slices.Contains(o.RPCMethods, "tools/call"):
		return errors.New("tools: need rpc_methods: [tools/call]")
	case len(o.RPCMethods) > 0 && !slices.Contains(o.accepted, BodyJSONRPC):
		return errors.New("rpc_methods: need the body form JSON_RPC")
	}
	return nil
}

func (o *operation) compileSources() error {
	type list struct {
		field string
		from  []Source
		to    *[]source
	}
	for _, l := range []list{
		{"recipients", o.Recipients, &o.recipients},
		{"citations", o.Citations, &o.citations},
		{"thread", o.Thread, &o.thread},
		{"key", o.Key, &o.key},
	} {
		out, err := compileSources(l.field, l.from, anyPlace)
		if err != nil {
			return err
		}
		*l.to = out
	}
	var err error
	o.providerIDs, err = compileSources("provider_ids", o.ProviderIDs, answerPlace)
	if err != nil {
		return err
	}
	for i := range o.When {
		c, err := compileCondition(&o.When[i])
		if err != nil {
			return fmt.Errorf("when[%d].source: %w", i, err)
		}
		o.when = append(o.when, c)
	}
	if o.Amount != nil {
		o.amount = &amountSource{minor: o.Amount.MinorUnits}
		o.amount.value, err = compileSource(&o.Amount.Value)
		if err == nil {
			o.amount.currency, err = compileSource(&o.Amount.Currency)
		}
		if err != nil {
			return fmt.Errorf("amount: %w", err)
		}
	}
	if o.Model != nil {
		o.model, err = compileModel(o.Model)
		if err != nil {
			return fmt.Errorf("model.%w", err)
		}
	}
	return o.survey()
}

func compileModel(m *Model) (*modelSource, error) {
	out := &modelSource{streams: m.Streams, usage: m.Usage}
	name := m.Name
	name.Required = true
	var err error
	out.name, err = compileSource(&name)
	if err != nil {
		return nil, fmt.Errorf("name: %w", err)
	}
	out.maxOutput, err = compileSources("max_output", m.MaxOutput, anyPlace)
	if err != nil {
		return nil, err
	}
	for _, f := range []struct {
		field string
		from  *Source
		to    **source
	}{{"choices", m.Choices, &out.choices}, {"stream", m.Stream, &out.stream}} {
		if f.from == nil {
			continue
		}
		s, err := compileSource(f.from)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.field, err)
		}
		*f.to = &s
	}
	return out, nil
}

// survey checks the path variables of all sources and notes whether any reads the body.
func (o *operation) survey() error {
	o.readsBody = len(o.RPCMethods) > 0
	for _, s := range o.sources() {
		o.readsBody = o.readsBody || s.readsBody()
		for _, v := range s.variables() {
			if !strings.Contains(o.Path, "{"+v+"}") && !strings.Contains(o.Path, "{"+v+"=**}") {
				return fmt.Errorf("path: has no variable {%s}, which a source reads", v)
			}
		}
	}
	return nil
}

// sources are all sources that read the request.
func (o *operation) sources() []*source {
	var out []*source
	for _, l := range [][]source{o.recipients, o.citations, o.thread, o.key} {
		for i := range l {
			out = append(out, &l[i])
		}
	}
	for i := range o.when {
		out = append(out, &o.when[i].source)
	}
	if o.amount != nil {
		out = append(out, &o.amount.value, &o.amount.currency)
	}
	if m := o.model; m != nil {
		out = append(out, &m.name)
		for i := range m.maxOutput {
			out = append(out, &m.maxOutput[i])
		}
		for _, s := range []*source{m.choices, m.stream} {
			if s != nil {
				out = append(out, s)
			}
		}
	}
	return out
}

func anyPlace(*source) error { return nil }

func answerPlace(s *source) error {
	if s.place != placeJSON && s.place != placeHeader {
		return errors.New("an answer is read by json and header only")
	}
	return nil
}

func compileSources(field string, list []Source, allow func(*source) error) ([]source, error) {
	var out []source
	for i := range list {
		s, err := compileSource(&list[i])
		if err == nil {
			err = allow(&s)
		}
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", field, i, err)
		}
		out = append(out, s)
	}
	return out, nil
}

func canonical(names []string) []string {
	var out []string
	for _, n := range names {
		out = appendUnique(out, http.CanonicalHeaderKey(n))
	}
	return out
}

func appendUnique(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// maxWait bounds what an answer may ask to wait; the caller cuts it further by the deadline.
const maxWait = 24 * time.Hour
