package operator

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/receipts"
)

// Query picks receipts: all conditions that are given must match. The zero Query picks all.
type Query struct {
	Operation   string
	Type        string // exact, or a prefix that ends in "*" ("hold.*")
	Destination string
	Tenant      string
	Agent       string
	Class       string
	Verdict     string
	Reason      string
	Since       time.Time
	Tail        int // only the newest so many; 0 = all
}

// Matches reports whether the query picks the receipt. Tail is not its business.
func (q *Query) Matches(r *receipts.Receipt) bool {
	verdict := ""
	if r.Decided {
		verdict = r.Verdict.String()
	}
	for _, c := range [...]struct{ want, got string }{
		{q.Operation, string(r.Operation)},
		{q.Destination, r.Destination},
		{q.Tenant, r.Actor.Tenant},
		{q.Agent, r.Actor.Agent},
		{q.Class, r.Class.String()},
		{q.Verdict, verdict},
		{q.Reason, string(r.Reason)},
	} {
		if c.want != "" && c.want != c.got {
			return false
		}
	}
	if prefix, ok := strings.CutSuffix(q.Type, "*"); ok {
		if !strings.HasPrefix(string(r.Type), prefix) {
			return false
		}
	} else if q.Type != "" && q.Type != string(r.Type) {
		return false
	}
	return q.Since.IsZero() || !r.Time.Before(q.Since)
}

// values is the query in a URL; parseQuery reads it back and refuses names that it does not know.
func (q *Query) values() url.Values {
	v := url.Values{}
	for name, p := range q.texts() {
		if *p != "" {
			v.Set(name, *p)
		}
	}
	if !q.Since.IsZero() {
		v.Set("since", q.Since.UTC().Format(time.RFC3339Nano))
	}
	if q.Tail > 0 {
		v.Set("tail", strconv.Itoa(q.Tail))
	}
	return v
}

func (q *Query) texts() map[string]*string {
	return map[string]*string{
		"operation": &q.Operation, "type": &q.Type, "destination": &q.Destination, "tenant": &q.Tenant,
		"agent": &q.Agent, "class": &q.Class, "verdict": &q.Verdict, "reason": &q.Reason,
	}
}

func parseQuery(v url.Values) (q Query, follow bool, err error) {
	texts := q.texts()
	for name, list := range v {
		value := list[0]
		switch p := texts[name]; {
		case len(list) > 1:
			err = errors.New(name + " is given twice")
		case p != nil:
			*p = value
		case name == "since":
			q.Since, err = time.Parse(time.RFC3339Nano, value)
		case name == "tail":
			q.Tail, err = strconv.Atoi(value)
			if err == nil && (q.Tail < 0 || q.Tail > maxTail) {
				err = fmt.Errorf("tail %s: want 0 to %d", value, maxTail)
			}
		case name == "follow":
			follow, err = strconv.ParseBool(value)
		default:
			err = errors.New("no such parameter: " + name)
		}
		if err != nil {
			return q, false, err
		}
	}
	return q, follow, nil
}

const maxTail = 100_000

// Select calls fn for the receipts that q picks, oldest first, and returns the cursor behind the last one looked at.
func Select(ctx context.Context, rs Receipts, from Cursor, q Query, fn func(*receipts.Receipt) error) (Cursor, error) {
	if q.Tail <= 0 {
		return rs.Scan(ctx, from, q.Matches, fn)
	}
	ring := make([]*receipts.Receipt, 0, min(q.Tail, 1024))
	n := 0
	next, err := rs.Scan(ctx, from, q.Matches, func(r *receipts.Receipt) error {
		if len(ring) < q.Tail {
			ring = append(ring, r)
		} else {
			ring[n%q.Tail] = r
		}
		n++
		return nil
	})
	if err != nil {
		return next, err
	}
	for i := range ring {
		err = fn(ring[(n+i)%len(ring)])
		if err != nil {
			return next, err
		}
	}
	return next, nil
}

// ParseRef reads how people name a receipt: "17" (of the newest log that has it), "LOG@17", the Stoplog-Receipt header as an
// agent got it (`"LOG";seq=17`), or an operation's id. For an operation Seq is -1.
func ParseRef(s string) (ref Ref, operation string, err error) {
	s = strings.TrimSpace(s)
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && n >= 0 {
		return Ref{Seq: n}, "", nil
	}
	if log, seq, ok := strings.Cut(s, ";seq="); ok {
		s = strings.Trim(log, `"`) + "@" + seq
	}
	if i := strings.LastIndexByte(s, '@'); i > 0 {
		n, err := strconv.ParseInt(s[i+1:], 10, 64)
		if err == nil && n >= 0 {
			return Ref{Log: s[:i], Seq: n}, "", nil
		}
	}
	s = strings.Trim(s, `"`) // Stoplog-Operation is a quoted string as well
	if s == "" || len(s) > 128 || strings.ContainsAny(s, " @\"") {
		return Ref{}, "", fmt.Errorf("receipt %q: want a number, LOG@NUMBER or an operation id", s)
	}
	return Ref{Seq: -1}, s, nil
}

func (r Ref) String() string { return r.Log + "@" + strconv.FormatInt(r.Seq, 10) }

// Find returns the receipt that ref names, or all receipts of the operation that it names.
func Find(ctx context.Context, rs Receipts, ref string) ([]*receipts.Receipt, error) {
	at, operation, err := ParseRef(ref)
	if err != nil {
		return nil, stoplog.Refuse(stoplog.ReasonNotFound, err.Error())
	}
	var found []*receipts.Receipt
	keep := func(r *receipts.Receipt) bool {
		if operation != "" {
			return string(r.Operation) == operation
		}
		return r.Seq == at.Seq && (at.Log == "" || r.Log == at.Log)
	}
	_, err = rs.Scan(ctx, Cursor{}, keep, func(r *receipts.Receipt) error {
		if operation == "" {
			found = found[:0] // logs come oldest first: the newest one wins
		}
		found = append(found, r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, stoplog.Refuse(stoplog.ReasonNotFound, "no receipt "+ref)
	}
	return found, nil
}
