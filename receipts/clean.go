package receipts

import (
	"maps"
	"slices"
	"strings"

	"github.com/stoplog/stoplog"
)

// cuts are what Cleaned tries, mildest first: bytes per text, entries per list. What Stoplog itself writes stays far below
// the first; what a destination or an agent named may be longer.
var cuts = [...]struct{ text, list int }{{256, 16}, {96, 8}, {24, 4}}

const maxID = 128 // bytes of an identifier; none is ever cut shorter

// Cleaned is a copy of r that can be encoded whatever it contained: bytes that are not UTF-8 become U+FFFD, texts and
// lists are cut, integers are limited, and the flag "cleaned" says so. A receipt must never be missing because of what
// somebody else put into a name.
func (r *Receipt) Cleaned() *Receipt {
	var c *Receipt
	for _, cut := range cuts {
		c = r.cleaned(cut.text, cut.list)
		_, err := c.AppendJSON(nil)
		if err == nil {
			break
		}
	}
	return c
}

func (r *Receipt) cleaned(maxText, maxList int) *Receipt {
	c := *r
	cleanText := func(s string) string { return cleanTo(s, maxText) }
	for _, s := range []*string{
		(*string)(&c.Operation), (*string)(&c.Previous), (*string)(&c.Intent), &c.Log,
	} {
		*s = cleanTo(*s, maxID)
	}
	for _, s := range []*string{
		&c.Policy, &c.State, &c.Function, &c.Subject, &c.Destination, &c.Connector, &c.Action, &c.Method,
		&c.Host, &c.Path, &c.Model, &c.Stage, &c.Rule, &c.Breaker, &c.Idempotent,
		&c.Actor.Tenant, &c.Actor.Org, &c.Actor.Agent, &c.Actor.Run, &c.Amount.Currency,
		&c.Request.Hash, &c.Request.Media, &c.Recipients.Hash, &c.Citations.Hash,
		(*string)(&c.Type), (*string)(&c.Reason),
	} {
		*s = cleanText(*s)
	}
	limit(&c.Amount.Micros, &c.DeadlineMS, &c.Request.Bytes)
	c.Stages = slices.Clone(c.Stages[:min(len(c.Stages), maxList)])
	for i := range c.Stages {
		s := &c.Stages[i]
		s.Stage, s.Rule, s.Reason = cleanText(s.Stage), cleanText(s.Rule), stoplog.Reason(cleanText(string(s.Reason)))
	}
	c.Budgets = slices.Clone(c.Budgets[:min(len(c.Budgets), maxList/2)])
	for i := range c.Budgets {
		b := &c.Budgets[i]
		b.Budget, b.Key, b.Unit = cleanText(b.Budget), cleanText(b.Key), cleanText(b.Unit)
		limit(&b.Limit, &b.Before, &b.Reserved, &b.Actual)
	}
	flags := []string{"cleaned"}
	for _, f := range c.Flags[:min(len(c.Flags), maxList-1)] {
		flags = append(flags, cleanText(f))
	}
	c.Flags = flags
	if c.Outcome != nil {
		o := *c.Outcome
		o.Sent, o.By, o.ProviderID, o.Error = cleanText(o.Sent), cleanText(o.By), cleanText(o.ProviderID), cleanText(o.Error)
		o.Response.Hash, o.Response.Media = cleanText(o.Response.Hash), cleanText(o.Response.Media)
		limit(&o.Micros, &o.FirstByte, &o.Response.Bytes, &o.Usage.Input, &o.Usage.Cached, &o.Usage.Output)
		c.Outcome = &o
	}
	if c.Ledger != nil {
		l := *c.Ledger
		l.Credential = cleanText(l.Credential)
		limit(&l.Bytes)
		c.Ledger = &l
	}
	note := map[string]string{}
	for _, k := range slices.Sorted(maps.Keys(c.Note)) {
		if len(note) < maxList {
			note[cleanText(k)] = cleanText(c.Note[k])
		}
	}
	c.Note = note
	return &c
}

func cleanTo(s string, limit int) string {
	s = s[:min(len(s), limit)]
	s = strings.ToValidUTF8(s, "\ufffd")
	return strings.Map(func(r rune) rune { // a control character takes six bytes as an escape
		if r < 0x20 {
			return ' '
		}
		return r
	}, s)
}

func limit(list ...*int64) {
	for _, n := range list {
		*n = min(max(*n, -maxInteger), maxInteger)
	}
}
