package proxy

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/stoplog/stoplog"
)

// Headers that an agent may add (RFC 9651). They only tighten: they name an operation, an intent with less time than the
// destination gives, further citations, and a subject. Nothing in them widens anything, and none is
// forwarded.
const (
	headerOperation = "Stoplog-Operation" // Item: string or token
	headerIntent    = "Stoplog-Intent"    // Item: string; parameter dl: milliseconds left
	headerCites     = "Stoplog-Cites"     // List of strings
	headerSubject   = "Stoplog-Subject"   // Item: string
)

func (x *exchange) tighten(h http.Header) error {
	e := x.effect
	if v := h[headerOperation]; len(v) > 0 {
		id, _, err := itemString(v, headerOperation)
		if err != nil {
			return err
		}
		e.Operation = stoplog.OperationID("op:" + id)
	} else if e.Idempotency.Key != "" {
		e.Operation = stoplog.OperationID("idk:" + e.Idempotency.Key)
	} else if v := h.Get("Idempotency-Key"); v != "" && len(v) <= 255 {
		e.Operation = stoplog.OperationID("idk:" + v)
	}
	if v := h[headerIntent]; len(v) > 0 {
		id, p, err := itemString(v, headerIntent)
		if err != nil {
			return err
		}
		// The id is the agent's own word: it is kept apart from those of other actors.
		e.Intent = stoplog.IntentID(x.l.Actor.Tenant + "/" + x.l.Actor.Agent + "/" + id)
		if ms, ok := intParam(p, "dl"); ok {
			if d := x.received.Add(time.Duration(max(ms, 0)) * time.Millisecond); d.Before(x.deadline) {
				x.deadline = d
			}
		}
	}
	if v := h[headerCites]; len(v) > 0 {
		list, err := httpsfv.UnmarshalList(v)
		if err != nil || len(list) > 256 {
			return malformed(headerCites, `a list of at most 256 strings, like "doc/1", "ticket/2"`)
		}
		for _, m := range list {
			it, ok := m.(httpsfv.Item)
			s, isString := it.Value.(string)
			if !ok || !isString || s == "" || len(s) > 512 {
				return malformed(headerCites, `a list of strings, like "doc/1", "ticket/2"`)
			}
			e.Citations = append(e.Citations, s)
		}
		slices.Sort(e.Citations)
		e.Citations = slices.Compact(e.Citations)
	}
	if v := h[headerSubject]; len(v) > 0 {
		s, _, err := itemString(v, headerSubject)
		if err != nil {
			return err
		}
		e.Subject = s
	}
	return nil
}

func itemString(v []string, name string) (string, *httpsfv.Params, error) {
	it, err := httpsfv.UnmarshalItem(v)
	if err == nil && len(v) == 1 {
		switch s := it.Value.(type) {
		case string:
			if s != "" && len(s) <= 100 && !strings.Contains(s, "/") {
				return s, it.Params, nil
			}
		case httpsfv.Token:
			if len(s) <= 100 && !strings.Contains(string(s), "/") {
				return string(s), it.Params, nil
			}
		}
	}
	return "", nil, malformed(name, `one structured-field string of 1 to 100 characters without "/", like "order-17"`)
}

func malformed(name, want string) error {
	return stoplog.Refuse(stoplog.ReasonMalformedHeader, "the header "+name+" must be "+want)
}

func intParam(p *httpsfv.Params, name string) (int64, bool) {
	if p == nil {
		return 0, false
	}
	v, ok := p.Get(name)
	n, isInt := v.(int64)
	return n, ok && isInt
}

// intentTable joins the re-sends of SDKs to the intent that they belong to: the official OpenAI and Anthropic clients number
// their own retries in X-Stainless-Retry-Count, and an Idempotency-Key names one wish.
type intentTable struct {
	newID func() stoplog.IntentID
	mu    sync.Mutex
	m     map[[32]byte]intentEntry
	swept time.Time
}

type intentEntry struct {
	id    stoplog.IntentID
	until time.Time
}

const maxIntents = 100_000

// of is the intent of a request that names none.
func (t *intentTable) of(x *exchange) stoplog.IntentID {
	e := x.effect
	key := x.cas.Key
	if e.Operation == "" {
		if x.retryCount == "" {
			return t.newID() // nothing tells a re-send from a new wish
		}
		key = x.h.o.Key(e.Actor.Tenant, e.Destination, e.Actor.Agent, "intent:"+string(e.Digest[:]))
	} else if key == ([32]byte{}) {
		key = x.h.o.Key(e.Actor.Tenant, e.Destination, e.Actor.Agent, "intent:"+string(e.Operation))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := x.received
	if now.Sub(t.swept) > time.Minute || len(t.m) >= maxIntents {
		for k, v := range t.m {
			if v.until.Before(now) {
				delete(t.m, k)
			}
		}
		t.swept = now
	}
	if v, ok := t.m[key]; ok && v.until.After(now) && (e.Operation != "" || x.retryCount != "0") {
		return v.id
	}
	id := t.newID()
	if t.m == nil {
		t.m = map[[32]byte]intentEntry{}
	}
	if len(t.m) < maxIntents {
		t.m[key] = intentEntry{id, x.deadline} // later it is a new wish
	}
	return id
}
