package receipts

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/stoplog/stoplog"
)

const (
	// Version is the value of member "v".
	Version = 1
	// MaxLeaf is the largest encoded receipt in bytes.
	MaxLeaf = 8 << 10

	maxInteger = 1<<53 - 1 // RFC 8785 numbers are doubles; beyond this two integers would share one form
)

var (
	errUTF8    = errors.New("receipt: a string is not valid UTF-8")
	errInteger = errors.New("receipt: an integer is beyond 2^53-1")
	errSize    = fmt.Errorf("receipt: larger than %d bytes", MaxLeaf)
)

// AppendJSON adds the receipt's leaf to dst: one RFC 8785-canonical JSON object. It fails on strings that are not valid
// UTF-8, integers beyond 2^53-1 and a leaf above MaxLeaf; then dst is returned as it was.
//
// Members are written in the order of their names' UTF-16 code units, which for these ASCII names is byte order. A member
// with its zero value is left out.
func (r *Receipt) AppendJSON(dst []byte) ([]byte, error) {
	e := encoder{b: dst}
	e.receipt(r)
	if e.err == nil && len(e.b)-len(dst) > MaxLeaf {
		e.err = errSize
	}
	if e.err != nil {
		return dst, e.err
	}
	return e.b, nil
}

type encoder struct {
	b   []byte
	err error
}

func (e *encoder) receipt(r *Receipt) {
	e.open()
	e.text("act", r.Action)
	e.text("agent", r.Actor.Agent)
	if r.Amount != (stoplog.Money{}) {
		e.name("amt")
		e.open()
		e.text("c", r.Amount.Currency)
		e.integer("u", r.Amount.Micros)
		e.close()
	}
	e.number("att", int64(r.Attempt))
	e.number("bep", int64(min(r.BreakerEpoch, maxInteger)))
	e.text("brk", r.Breaker)
	e.budgets(r.Budgets)
	if r.Class != stoplog.ClassUnspecified {
		e.text("cls", r.Class.String())
	}
	e.text("conn", r.Connector)
	if r.Decided {
		e.text("dec", r.Verdict.String())
	}
	e.text("dest", r.Destination)
	e.number("dl", r.DeadlineMS)
	e.texts("flag", r.Flags)
	e.stages(r.Stages)
	e.text("fn", r.Function)
	e.text("host", r.Host)
	e.text("idk", r.Idempotent)
	e.text("intent", string(r.Intent))
	e.ledger(r.Ledger)
	e.text("log", r.Log)
	e.number("lvl", int64(min(r.Level, stoplog.L3)))
	e.text("m", r.Method)
	e.text("mdl", r.Model)
	e.number("mono", r.Mono.Microseconds())
	e.instant("na", r.NotAfter)
	e.note(r.Note)
	e.count("obj", r.Citations)
	e.flag("obs", r.Observe)
	e.text("op", string(r.Operation))
	e.text("org", r.Actor.Org)
	e.outcome(r.Outcome)
	e.text("pol", r.Policy)
	e.text("prev", string(r.Previous))
	e.flag("probe", r.Probe)
	e.text("pt", r.Path)
	e.number("rb", int64(r.AttemptsLeft))
	e.count("rcp", r.Recipients)
	e.commitment("req", r.Request)
	e.text("rule", r.Rule)
	e.text("run", r.Actor.Run)
	e.integer("seq", r.Seq)
	e.text("state", r.State)
	e.text("stg", r.Stage)
	e.text("subj", r.Subject)
	e.text("ten", r.Actor.Tenant)
	e.instant("ts", r.Time)
	e.text("typ", string(r.Type))
	e.integer("v", Version)
	e.text("why", string(r.Reason))
	e.close()
}

func (e *encoder) budgets(lines []BudgetLine) {
	if len(lines) == 0 {
		return
	}
	e.name("bud")
	e.b = append(e.b, '[')
	for i := range lines {
		l := &lines[i]
		e.element(i)
		e.open()
		if l.Actual >= 0 {
			e.integer("a", l.Actual)
		}
		e.text("b", l.Budget)
		e.number("bf", l.Before)
		e.flag("e", l.Estimate)
		e.text("k", l.Key)
		e.number("l", l.Limit)
		e.number("r", l.Reserved)
		e.text("u", l.Unit)
		e.close()
	}
	e.b = append(e.b, ']')
}

func (e *encoder) stages(list []StageVerdict) {
	if len(list) == 0 {
		return
	}
	e.name("flt")
	e.b = append(e.b, '[')
	for i := range list {
		s := &list[i]
		e.element(i)
		e.open()
		e.text("f", s.Stage)
		e.text("rule", s.Rule)
		e.text("v", s.Verdict.String())
		e.text("why", string(s.Reason))
		e.close()
	}
	e.b = append(e.b, ']')
}

func (e *encoder) ledger(l *LedgerLine) {
	if l == nil {
		return
	}
	e.name("led")
	e.open()
	e.flag("ans", l.Answer)
	e.text("cr", l.Credential)
	e.hash("d", l.Digest)
	e.instant("exp", l.Expires)
	e.hash("k", l.Key)
	e.flag("kept", l.Kept)
	e.number("n", l.Bytes)
	e.instant("nb", l.NotBefore)
	e.number("ttl", int64(l.KeyTTL/time.Second))
	e.close()
}

func (e *encoder) outcome(o *OutcomeLine) {
	if o == nil {
		return
	}
	e.name("out")
	e.open()
	e.text("by", o.By)
	e.text("cls", o.Outcome.String())
	e.text("err", o.Error)
	e.number("fb", o.FirstByte)
	e.text("h", o.Health.String())
	e.commitment("resp", o.Response)
	e.text("rid", o.ProviderID)
	e.text("sent", o.Sent)
	e.number("st", int64(o.Status))
	e.number("us", o.Micros)
	if u := &o.Usage; u.Known || *u != (stoplog.Usage{}) {
		e.name("use")
		e.open()
		e.number("cached", u.Cached)
		e.flag("est", u.Estimated)
		e.number("in", u.Input)
		e.flag("known", u.Known)
		e.number("out", u.Output)
		e.close()
	}
	e.close()
}

func (e *encoder) commitment(name string, c Commitment) {
	if c == (Commitment{}) {
		return
	}
	e.name(name)
	e.open()
	e.text("c", c.Hash)
	e.text("ct", c.Media)
	e.number("n", c.Bytes)
	e.close()
}

func (e *encoder) count(name string, c Count) {
	if c == (Count{}) {
		return
	}
	e.name(name)
	e.open()
	e.text("c", c.Hash)
	e.number("n", int64(c.N))
	e.close()
}

func (e *encoder) note(m map[string]string) {
	if len(m) == 0 {
		return
	}
	keys := make([]string, 0, 16)
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compareUTF16)
	e.name("note")
	e.open()
	for _, k := range keys {
		e.comma()
		e.quote(k)
		e.b = append(e.b, ':')
		e.quote(m[k])
	}
	e.close()
}

func (e *encoder) open()  { e.b = append(e.b, '{') }
func (e *encoder) close() { e.b = append(e.b, '}') }

func (e *encoder) element(i int) {
	if i > 0 {
		e.b = append(e.b, ',')
	}
}

func (e *encoder) comma() {
	if e.b[len(e.b)-1] != '{' {
		e.b = append(e.b, ',')
	}
}

// name writes a member name of this schema: ASCII without anything to escape.
func (e *encoder) name(n string) {
	e.comma()
	e.b = append(e.b, '"')
	e.b = append(e.b, n...)
	e.b = append(e.b, '"', ':')
}

func (e *encoder) text(name, s string) {
	if s != "" {
		e.name(name)
		e.quote(s)
	}
}

func (e *encoder) texts(name string, list []string) {
	if len(list) == 0 {
		return
	}
	e.name(name)
	e.b = append(e.b, '[')
	for i, s := range list {
		e.element(i)
		e.quote(s)
	}
	e.b = append(e.b, ']')
}

func (e *encoder) flag(name string, on bool) {
	if on {
		e.name(name)
		e.b = append(e.b, "true"...)
	}
}

func (e *encoder) hash(name string, h [32]byte) {
	if h != ([32]byte{}) {
		e.name(name)
		e.b = append(e.b, '"')
		e.b = base64.RawURLEncoding.AppendEncode(e.b, h[:])
		e.b = append(e.b, '"')
	}
}

func (e *encoder) instant(name string, t time.Time) {
	if !t.IsZero() {
		e.integer(name, min(t.UnixMicro(), maxInteger))
	}
}

// number writes an integer unless it is zero.
func (e *encoder) number(name string, n int64) {
	if n != 0 {
		e.integer(name, n)
	}
}

func (e *encoder) integer(name string, n int64) {
	if n > maxInteger || n < -maxInteger {
		e.err = errInteger
		return
	}
	e.name(name)
	e.b = strconv.AppendInt(e.b, n, 10)
}

// quote writes a JSON string with RFC 8785's escapes: the two that JSON demands, the five short ones, and \u00xx for the
// other control characters. Everything else stands for itself.
func (e *encoder) quote(s string) {
	e.b = append(e.b, '"')
	from, ascii := 0, true
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			ascii = ascii && c < utf8.RuneSelf
			continue
		}
		e.b = append(e.b, s[from:i]...)
		from = i + 1
		e.b = append(e.b, '\\')
		switch c {
		case '"', '\\':
			e.b = append(e.b, c)
		case '\b':
			e.b = append(e.b, 'b')
		case '\t':
			e.b = append(e.b, 't')
		case '\n':
			e.b = append(e.b, 'n')
		case '\f':
			e.b = append(e.b, 'f')
		case '\r':
			e.b = append(e.b, 'r')
		default:
			const hex = "0123456789abcdef"
			e.b = append(e.b, 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	if !ascii && !utf8.ValidString(s) {
		e.err = errUTF8
	}
	e.b = append(e.b, s[from:]...)
	e.b = append(e.b, '"')
}

// compareUTF16 orders strings by UTF-16 code units, as RFC 8785 asks: U+1F600 (a surrogate pair, D83D…) comes before
// U+FB33, which byte order would turn round.
func compareUTF16(a, b string) int {
	for a != "" && b != "" {
		x, n := utf8.DecodeRuneInString(a)
		y, m := utf8.DecodeRuneInString(b)
		if x != y {
			return utf16Rank(x) - utf16Rank(y)
		}
		a, b = a[n:], b[m:]
	}
	return len(a) - len(b)
}

// utf16Rank moves the runes beyond the first plane to where their surrogates stand: above U+D7FF and below U+E000.
func utf16Rank(r rune) int {
	switch {
	case r >= 0x10000:
		return int(r) - 0x10000 + 0xd800
	case r >= 0xe000:
		return int(r) + 0x100000
	}
	return int(r)
}
