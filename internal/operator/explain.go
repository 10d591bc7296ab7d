package operator

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/internal/operator/reasons"
	"github.com/stoplog/stoplog/receipts"
)

// Explanation is one receipt in plain words.
type Explanation struct {
	Receipt   Ref       `json:"receipt"`
	Type      string    `json:"type"`
	Time      time.Time `json:"time"`
	Operation string    `json:"operation,omitempty"`
	Effect    string    `json:"effect,omitempty"`  // what was to be done, by whom
	Verdict   string    `json:"verdict,omitempty"` // empty: the receipt records no decision
	Enforced  bool      `json:"enforced"`
	Reason    string    `json:"reason,omitempty"`
	Title     string    `json:"title,omitempty"`
	Decider   string    `json:"decider,omitempty"` // the judge, and the rule if one decided
	Why       string    `json:"why,omitempty"`
	Facts     []string  `json:"facts,omitempty"`  // what the decision rested on
	Judges    []string  `json:"judges,omitempty"` // in order, each with its verdict
	Happened  string    `json:"happened,omitempty"`
	Change    []string  `json:"change,omitempty"` // what would change the decision
}

// Explain says which rule decided, on what facts, and what would change it. It rests on the receipt alone.
func Explain(r *receipts.Receipt) Explanation {
	x := Explanation{
		Receipt: Ref{Log: r.Log, Seq: r.Seq}, Type: string(r.Type), Time: r.Time, Operation: string(r.Operation),
		Effect: effectText(r), Enforced: !r.Observe, Facts: facts(r), Happened: happened(r),
	}
	if r.Decided {
		e, _ := reasons.Lookup(r.Reason)
		x.Verdict, x.Reason, x.Title, x.Why = r.Verdict.String(), string(r.Reason), e.Title, e.What
		x.Decider = decider(r.Stage)
		if r.Rule != "" {
			x.Decider += ", rule " + r.Rule
		}
		x.Change = changes(r, e)
	}
	for _, s := range r.Stages {
		line := s.Stage + ": " + s.Verdict.String()
		if s.Reason != "" && s.Reason != stoplog.ReasonAllowed {
			line += " (" + string(s.Reason) + ")"
		}
		if s.Rule != "" {
			line += " by rule " + s.Rule
		}
		x.Judges = append(x.Judges, line)
	}
	return x
}

// decider names the judge in words where its own name is not one.
func decider(stage string) string {
	switch stage {
	case "store":
		return "the claim (level, breaker, limits and budgets in one step)"
	case "last_look":
		return "the last look at the level before the first byte"
	}
	return stage
}

func effectText(r *receipts.Receipt) string {
	if r.Action == "" && r.Method == "" { // a change by people, or of the log itself
		return strings.TrimSpace(strings.TrimSpace(r.Destination+" "+r.Breaker) + " " + noteText(r))
	}
	what := r.Action
	if what == "" {
		what = strings.TrimSpace(r.Method + " " + r.Path)
	}
	s := strings.TrimSpace(what + " at " + r.Destination)
	if r.Class != stoplog.ClassUnspecified {
		s += " (" + r.Class.String() + ")"
	}
	if r.Recipients.N > 0 {
		s += fmt.Sprintf(" to %d recipient(s)", r.Recipients.N)
	}
	if a := r.Actor; a.Agent != "" || a.Tenant != "" {
		s += ", by " + strings.Trim(a.Tenant+"/"+a.Agent, "/")
	}
	return s
}

// noteText is a control receipt's facts in a fixed order.
func noteText(r *receipts.Receipt) string {
	keys := make([]string, 0, len(r.Note))
	for k := range r.Note {
		if k != receipts.NoteKey && k != receipts.NoteSignature && k != receipts.NotePrevRoot { // long, and for machines
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	parts := make([]string, 0, len(keys))
	for _, k := range keys {
		parts = append(parts, k+"="+r.Note[k])
	}
	return strings.Join(parts, " ")
}

func facts(r *receipts.Receipt) []string {
	var f []string
	say := func(format string, args ...any) { f = append(f, fmt.Sprintf(format, args...)) }
	if r.Decided || r.Level > stoplog.L0 {
		say("effective level %s", r.Level)
	}
	if r.Breaker != "" {
		say("breaker %s (epoch %d)", r.Breaker, r.BreakerEpoch)
	}
	if r.Probe {
		say("let through as a probe of a half-open breaker")
	}
	for _, b := range r.Budgets {
		left := b.Limit - b.Before
		s := fmt.Sprintf("budget %s: limit %d %s, used or held before %d, left %d, reserved %d", b.Budget, b.Limit, b.Unit, b.Before, left, b.Reserved)
		if b.Actual >= 0 {
			s += fmt.Sprintf(", really %d", b.Actual)
		}
		f = append(f, s)
	}
	if r.Attempt > 0 {
		say("attempt %d, %d left of the intent", r.Attempt, r.AttemptsLeft)
	}
	if r.Model != "" {
		say("model %s", r.Model)
	}
	if !r.Amount.IsZero() {
		say("amount %d millionths of %s", r.Amount.Micros, r.Amount.Currency)
	}
	if r.Idempotent != "" {
		say("idempotency key set by the %s", r.Idempotent)
	}
	if len(r.Flags) > 0 {
		say("flags: %s", strings.Join(r.Flags, ", "))
	}
	if n := noteText(r); n != "" && (r.Action != "" || r.Method != "") {
		say("noted: %s", n)
	}
	if r.Policy != "" {
		say("configuration %s", r.Policy)
	}
	return f
}

func happened(r *receipts.Receipt) string {
	switch o := r.Outcome; {
	case o != nil:
		s := fmt.Sprintf("%s: %s sent", o.Outcome, o.Sent)
		if o.Status > 0 {
			s += fmt.Sprintf(", the destination answered %d", o.Status)
		}
		if o.Error != "" {
			s += ", connection error: " + o.Error
		}
		if o.By != "" {
			s += ", known by " + o.By
		}
		if u := o.Usage; u.Known {
			s += fmt.Sprintf(", %d tokens in, %d out", u.Input, u.Output)
		}
		return s
	case r.Type == receipts.TypeDispatching:
		return "the intent is on disk; bytes may leave from here on"
	case r.Type == receipts.TypeHoldCreated:
		return "kept byte for byte, nothing was sent"
	case r.Type == receipts.TypeHoldWithdrawn, r.Type == receipts.TypeHoldExpired:
		return "ended without being sent"
	case r.Type == receipts.TypeOpUnknown:
		return "found under way after a crash: bytes may have left"
	case r.Decided && r.Verdict != stoplog.Allow && !r.Observe:
		return "nothing was sent"
	}
	return ""
}

// changes says what would lead to another decision, with the names of this case filled in.
func changes(r *receipts.Receipt, e reasons.Entry) []string {
	var c []string
	if r.Observe {
		c = append(c, "Nothing was enforced: the sidecar runs with --observe. Without it, this decision counts.")
	}
	if r.Verdict == stoplog.Allow {
		return c
	}
	switch r.Reason {
	case stoplog.ReasonOutreachFreeze, stoplog.ReasonWriteFreeze, stoplog.ReasonFullStop:
		below := r.Class.Stops() - 1
		c = append(c,
			fmt.Sprintf("It would leave if none of its scopes were above %s: %s.", below, scopeList(r)),
			fmt.Sprintf("stoplog level lower %s --scope SCOPE --reason …, then stoplog holds release %s", below, orWord(string(r.Operation), "OPERATION")))
	case stoplog.ReasonBreakerOpen, stoplog.ReasonProbeSlotUsed:
		c = append(c, "The destination has to answer well again; probes find that out after the cooldown.",
			fmt.Sprintf("stoplog breaker force %s half-open --reason … starts probing now", r.Destination))
	case stoplog.ReasonBudgetExhausted:
		for _, b := range r.Budgets {
			if b.Before+b.Reserved > b.Limit {
				c = append(c, fmt.Sprintf("Budget %s has %d %s left and the worst case needs %d: it fits if the request asks for less, the window ends, or the limit is at least %d.",
					b.Budget, max(0, b.Limit-b.Before), b.Unit, b.Reserved, b.Before+b.Reserved))
			}
		}
	case stoplog.ReasonUnknownDestination, stoplog.ReasonUnclassified:
		c = append(c, "stoplog learn prints the lines to add")
	case stoplog.ReasonPolicyDenied:
		if r.Rule != "" {
			c = append(c, "The rule "+r.Rule+" of the configuration would have to select otherwise.")
		}
	}
	return append(c, e.Do)
}

func scopeList(r *receipts.Receipt) string {
	var s []string
	for _, scope := range r.Actor.Scopes(r.Destination) {
		s = append(s, string(scope))
	}
	return strings.Join(s, ", ")
}

func orWord(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
