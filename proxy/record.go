package proxy

import (
	"mime"
	"strconv"
	"strings"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
	"github.com/stoplog/stoplog/proxy/connector"
	"github.com/stoplog/stoplog/receipts"
)

// receipt is a receipt of type t with all that is known of the exchange so far.
func (x *exchange) receipt(t receipts.Type) *receipts.Receipt {
	r := &receipts.Receipt{
		Type: t, Operation: x.operation, Actor: x.l.Actor, Function: x.l.Function,
		Method: x.method, Flags: x.flags,
	}
	if x.rt != nil {
		r.Policy = x.rt.Policy
	}
	if x.dst != nil {
		r.Destination, r.Host = x.dst.Name, x.dst.Host
		r.DeadlineMS = x.remaining().Milliseconds()
	}
	if x.reading != nil {
		r.Path = x.reading.Template
	}
	if e := x.effect; e != nil {
		r.Class, r.Action, r.Connector, r.Subject, r.Intent = e.Class, e.Action, e.Connector, e.Subject, e.Intent
		r.Actor, r.Function, r.Amount, r.Model = e.Actor, e.Function, e.Amount, e.Model.Name
	}
	if e := x.effect; e != nil && x.operation != "" && len(x.exact.Body)+len(e.Recipients)+len(e.Citations) > 0 {
		x.h.o.Committer(x.operation).Describe(r, e, x.exact.Body, x.media())
	}
	return r
}

func (x *exchange) media() string {
	for _, f := range x.exact.Header {
		if strings.EqualFold(f.Name, "Content-Type") {
			m, _, err := mime.ParseMediaType(f.Value)
			if err != nil {
				return "invalid"
			}
			return m
		}
	}
	return ""
}

// decided notes a judgment in r.
func (x *exchange) decided(r *receipts.Receipt, d stoplog.Decision) *receipts.Receipt {
	r.Decided, r.Verdict, r.Reason, r.Stage, r.Rule, r.Level = true, d.Verdict, d.Reason, d.Stage, d.Rule, d.Level
	r.Observe = x.judgment.Observed
	for _, o := range x.judgment.Opinions {
		r.Stages = append(r.Stages, receipts.StageVerdict{Stage: o.Stage, Verdict: o.Result, Reason: o.Reason, Rule: o.Rule})
	}
	return r
}

// granted notes what was taken.
func (x *exchange) granted(r *receipts.Receipt, p *admission.Permit) {
	g := p.Grant()
	r.Attempt, r.AttemptsLeft = g.Attempt, g.AttemptsLeft
	r.Level, r.Breaker, r.BreakerEpoch, r.Probe = g.Level, g.BreakerState.String(), g.BreakerEpoch, g.Probe
	spend := p.Charges().Spend
	for i, b := range g.Spend {
		l := receipts.BudgetLine{Budget: b.Budget, Key: b.Key, Unit: b.Unit, Limit: b.Limit, Actual: -1}
		if i < len(spend) {
			l.Reserved = spend[i].Estimate
		}
		l.Before = b.Used + b.Held - l.Reserved
		r.Budgets = append(r.Budgets, l)
	}
}

// ended notes how an attempt ended.
func (x *exchange) ended(r *receipts.Receipt, a *attempt) {
	res := a.result
	r.Outcome = &receipts.OutcomeLine{
		Outcome: res.Outcome, Health: res.Health, Status: a.status, Sent: a.sent.String(), By: a.by, ProviderID: res.ProviderID,
		Micros: a.took.Microseconds(), FirstByte: a.firstByte.Microseconds(), Usage: res.Usage, Error: a.errClass,
	}
	r.Outcome.Response = receipts.Commitment{Bytes: a.bytes}
	for _, f := range res.Flags {
		x.flag(f)
	}
	r.Flags = x.flags
	for i := range r.Budgets {
		if i < len(a.spent) {
			r.Budgets[i].Actual = a.spent[i]
			r.Budgets[i].Estimate = res.Usage.Estimated || a.spent[i] < 0
		}
	}
}

// recordRefusal writes the receipt of a refusal and returns its header form. A refusal that cannot be recorded stays a
// refusal.
func (x *exchange) recordRefusal(d stoplog.Decision) string {
	x.h.o.Events.Decided(x.dst, x.effect, d, false)
	r := x.decided(x.receipt(receipts.TypeDecision), d)
	r.Note = x.unknown
	pos, err := x.h.o.Log.Enqueue(r)
	if err != nil {
		x.h.o.Events.Failed("record a refusal", err)
		return ""
	}
	return receiptField(pos)
}

// receiptField is the header form of a receipt's position (RFC 9651 item).
func receiptField(p receipts.Position) string {
	if p.Log == "" {
		return ""
	}
	return strconv.Quote(p.Log) + ";seq=" + strconv.FormatInt(p.Seq, 10)
}

// note sends a receipt without waiting. If the log takes no more, effects that need a record stop at Commit; here the effect
// is over, and the failure is told.
func (x *exchange) note(r *receipts.Receipt) string {
	pos, err := x.h.o.Log.Enqueue(r)
	if err != nil {
		x.h.o.Events.Failed("record an outcome", err)
		return ""
	}
	return receiptField(pos)
}

// spent is what an attempt really used of each spend charge; -1 where nothing is known and the estimate stands.
func spent(charges []admission.SpendCharge, res connector.Result) []int64 {
	out := make([]int64, len(charges))
	for i, c := range charges {
		switch {
		case res.Outcome == stoplog.OutcomeNotSent:
			out[i] = 0
		case c.Actual != nil && res.Usage.Known:
			out[i] = c.Actual(res.Usage)
		case res.Outcome == stoplog.OutcomeRejected && !res.Usage.Known:
			out[i] = 0 // a definite refusal reached nobody and is not billed
		default:
			out[i] = -1
		}
	}
	return out
}
