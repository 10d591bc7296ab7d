package receipts

import (
	"encoding/base64"
	"fmt"
	"time"

	"github.com/stoplog/stoplog"
)

// Decode reads a leaf. It accepts exactly what a Stoplog can have written: RFC 8785-canonical JSON (sorted unique names,
// minimal escapes, integers within 2^53-1, no null) of a known version. Members it does not know are checked for form
// and otherwise ignored; they stay part of the leaf, whose bytes are what is hashed.
func Decode(leaf []byte) (*Receipt, error) {
	if len(leaf) > MaxLeaf {
		return nil, errSize
	}
	r := &Receipt{}
	p := parser{b: leaf}
	version := int64(0)
	p.object(func(name string) bool {
		if name == "v" {
			version = p.integer()
			return true
		}
		return p.receipt(r, name)
	})
	if p.err == nil && p.i != len(leaf) {
		p.fail("something follows the object")
	}
	if p.err == nil && version != Version {
		return nil, fmt.Errorf("receipt: version %d is not known", version)
	}
	if p.err != nil {
		return nil, fmt.Errorf("receipt: %w", p.err)
	}
	return r, nil
}

//nolint:funlen,gocyclo // one row per member
func (p *parser) receipt(r *Receipt, name string) bool {
	switch name {
	case "act":
		r.Action = p.text()
	case "agent":
		r.Actor.Agent = p.text()
	case "amt":
		p.members(map[string]func(){
			"c": func() { r.Amount.Currency = p.text() },
			"u": func() { r.Amount.Micros = p.integer() },
		})
	case "att":
		r.Attempt = int(p.integer())
	case "bep":
		r.BreakerEpoch = uint64(p.small(maxInteger))
	case "brk":
		r.Breaker = p.text()
	case "bud":
		p.array(func() { r.Budgets = append(r.Budgets, p.budget()) })
	case "cls":
		r.Class = named(p, stoplog.ParseClass)
	case "conn":
		r.Connector = p.text()
	case "dec":
		r.Decided, r.Verdict = true, p.verdict()
	case "dest":
		r.Destination = p.text()
	case "dl":
		r.DeadlineMS = p.integer()
	case "flag":
		p.array(func() { r.Flags = append(r.Flags, p.text()) })
	case "flt":
		p.array(func() { r.Stages = append(r.Stages, p.stage()) })
	case "fn":
		r.Function = p.text()
	case "host":
		r.Host = p.text()
	case "idk":
		r.Idempotent = p.text()
	case "intent":
		r.Intent = stoplog.IntentID(p.text())
	case "led":
		r.Ledger = p.ledger()
	case "log":
		r.Log = p.text()
	case "lvl":
		r.Level = stoplog.Level(p.small(int64(stoplog.L3)))
	case "m":
		r.Method = p.text()
	case "mdl":
		r.Model = p.text()
	case "mono":
		r.Mono = time.Duration(p.integer()) * time.Microsecond
	case "na":
		r.NotAfter = p.instant()
	case "note":
		r.Note = map[string]string{}
		p.object(func(k string) bool { r.Note[k] = p.text(); return true })
		if len(r.Note) == 0 {
			r.Note = nil
		}
	case "obj":
		r.Citations = p.count()
	case "obs":
		r.Observe = p.flag()
	case "op":
		r.Operation = stoplog.OperationID(p.text())
	case "org":
		r.Actor.Org = p.text()
	case "out":
		r.Outcome = p.outcome()
	case "pol":
		r.Policy = p.text()
	case "prev":
		r.Previous = stoplog.OperationID(p.text())
	case "probe":
		r.Probe = p.flag()
	case "pt":
		r.Path = p.text()
	case "rb":
		r.AttemptsLeft = int(p.integer())
	case "rcp":
		r.Recipients = p.count()
	case "req":
		r.Request = p.commitment()
	case "rule":
		r.Rule = p.text()
	case "run":
		r.Actor.Run = p.text()
	case "seq":
		r.Seq = p.integer()
	case "state":
		r.State = p.text()
	case "stg":
		r.Stage = p.text()
	case "subj":
		r.Subject = p.text()
	case "ten":
		r.Actor.Tenant = p.text()
	case "ts":
		r.Time = p.instant()
	case "typ":
		r.Type = Type(p.text())
	case "why":
		r.Reason = stoplog.Reason(p.text())
	default:
		return false
	}
	return true
}

func (p *parser) budget() BudgetLine {
	l := BudgetLine{Actual: -1}
	p.members(map[string]func(){
		"a":  func() { l.Actual = p.integer() },
		"b":  func() { l.Budget = p.text() },
		"bf": func() { l.Before = p.integer() },
		"e":  func() { l.Estimate = p.flag() },
		"k":  func() { l.Key = p.text() },
		"l":  func() { l.Limit = p.integer() },
		"r":  func() { l.Reserved = p.integer() },
		"u":  func() { l.Unit = p.text() },
	})
	return l
}

func (p *parser) stage() StageVerdict {
	s := StageVerdict{}
	p.members(map[string]func(){
		"f":    func() { s.Stage = p.text() },
		"rule": func() { s.Rule = p.text() },
		"v":    func() { s.Verdict = p.verdict() },
		"why":  func() { s.Reason = stoplog.Reason(p.text()) },
	})
	return s
}

func (p *parser) ledger() *LedgerLine {
	l := &LedgerLine{}
	p.members(map[string]func(){
		"ans":  func() { l.Answer = p.flag() },
		"cr":   func() { l.Credential = p.text() },
		"d":    func() { l.Digest = p.hash() },
		"exp":  func() { l.Expires = p.instant() },
		"k":    func() { l.Key = p.hash() },
		"kept": func() { l.Kept = p.flag() },
		"n":    func() { l.Bytes = p.integer() },
		"nb":   func() { l.NotBefore = p.instant() },
		"ttl":  func() { l.KeyTTL = time.Duration(p.small(1e9)) * time.Second },
	})
	return l
}

func (p *parser) outcome() *OutcomeLine {
	o := &OutcomeLine{}
	p.members(map[string]func(){
		"by":   func() { o.By = p.text() },
		"cls":  func() { o.Outcome = named(p, known(stoplog.ParseOutcome)) },
		"err":  func() { o.Error = p.text() },
		"fb":   func() { o.FirstByte = p.integer() },
		"h":    func() { o.Health = named(p, known(parseHealth)) },
		"resp": func() { o.Response = p.commitment() },
		"rid":  func() { o.ProviderID = p.text() },
		"sent": func() { o.Sent = p.text() },
		"st":   func() { o.Status = int(p.integer()) },
		"us":   func() { o.Micros = p.integer() },
		"use": func() {
			p.members(map[string]func(){
				"cached": func() { o.Usage.Cached = p.integer() },
				"est":    func() { o.Usage.Estimated = p.flag() },
				"in":     func() { o.Usage.Input = p.integer() },
				"known":  func() { o.Usage.Known = p.flag() },
				"out":    func() { o.Usage.Output = p.integer() },
			})
		},
	})
	return o
}

func (p *parser) commitment() Commitment {
	c := Commitment{}
	p.members(map[string]func(){
		"c":  func() { c.Hash = p.text() },
		"ct": func() { c.Media = p.text() },
		"n":  func() { c.Bytes = p.integer() },
	})
	return c
}

func (p *parser) count() Count {
	c := Count{}
	p.members(map[string]func(){
		"c": func() { c.Hash = p.text() },
		"n": func() { c.N = int(p.integer()) },
	})
	return c
}

// members reads an object; names without a reader are skipped.
func (p *parser) members(read map[string]func()) {
	p.object(func(name string) bool {
		f := read[name]
		if f == nil {
			return false
		}
		f()
		return true
	})
}

func (p *parser) instant() time.Time { return time.UnixMicro(p.integer()).UTC() }

func (p *parser) small(limit int64) int64 {
	n := p.integer()
	if n < 0 || n > limit {
		p.fail("number out of range")
		return 0
	}
	return n
}

func (p *parser) hash() (h [32]byte) {
	s := p.text()
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if p.err == nil && (err != nil || len(b) != len(h)) {
		p.fail("not a hash")
		return h
	}
	copy(h[:], b)
	return h
}

func (p *parser) verdict() stoplog.Verdict { return named(p, known(parseVerdict)) }

// named reads a string that must be one of a closed set of names.
func named[T any](p *parser, parse func(string) (T, error)) T {
	s := p.text()
	v, err := parse(s)
	if err != nil {
		p.fail(err.Error())
	}
	return v
}

func known[T any](parse func(string) (T, bool)) func(string) (T, error) {
	return func(s string) (T, error) {
		v, ok := parse(s)
		if !ok {
			return v, fmt.Errorf("name %q is not known", s)
		}
		return v, nil
	}
}

func parseVerdict(s string) (stoplog.Verdict, bool) {
	for v := stoplog.Deny; v <= stoplog.Allow; v++ {
		if v.String() == s {
			return v, true
		}
	}
	return stoplog.Deny, false
}

func parseHealth(s string) (stoplog.Health, bool) {
	for h := stoplog.HealthNeutral; h <= stoplog.HealthThrottled; h++ {
		if h.String() == s {
			return h, true
		}
	}
	return stoplog.HealthNeutral, false
}
