package fakevendor

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

func newStripe(v *vendor) *http.ServeMux {
	s := &stripe{v: v, objects: map[string]obj{}, keys: map[string]*stripeKey{}}
	m := http.NewServeMux()
	for _, k := range []stripeKind{
		{"charges", "charge", "ch_", []string{"amount", "currency"}, "succeeded"},
		{"payment_intents", "payment_intent", "pi_", []string{"amount", "currency"}, "requires_confirmation"},
		{"refunds", "refund", "re_", nil, "succeeded"},
		{"customers", "customer", "cus_", nil, ""},
	} {
		handle(m, "POST /v1/"+k.path, s.write(k.object+".create", func(x *exchange, f url.Values) (int, obj) { return s.create(k, f) }))
		handle(m, "POST /v1/"+k.path+"/{id}", s.write(k.object+".update", s.update))
		handle(m, "GET /v1/"+k.path, s.read(func(x *exchange) { s.list(x, k) }))
		handle(m, "GET /v1/"+k.path+"/search", s.read(func(x *exchange) { s.search(x, k) }))
		handle(m, "GET /v1/"+k.path+"/{id}", s.read(s.get))
	}
	for verb, status := range map[string]string{"confirm": "succeeded", "capture": "succeeded", "cancel": "canceled"} {
		handle(m, "POST /v1/payment_intents/{id}/"+verb, s.write("payment_intent."+verb, func(x *exchange, _ url.Values) (int, obj) {
			return s.set(x.r.PathValue("id"), obj{"status": status})
		}))
	}
	return m
}

// stripeKind is one sort of object.
type stripeKind struct {
	path, object, prefix string
	required             []string
	status               string
}

// stripe stores objects, and for each idempotency key the first answer.
type stripe struct {
	v *vendor

	mu      sync.Mutex
	objects map[string]obj
	order   []string // ids, oldest first
	keys    map[string]*stripeKey
}

type stripeKey struct {
	request string // id of the first request
	digest  [32]byte
	status  int
	answer  obj
}

func stripeError(kind, code, message string) obj {
	e := obj{"type": kind, "message": message, "doc_url": "https://stripe.com/docs/error-codes"}
	if code != "" {
		e["code"] = code
	}
	return obj{"error": e}
}

func (s *stripe) read(f func(*exchange)) func(*exchange) {
	return func(x *exchange) {
		if s.admit(x) {
			f(x)
		}
	}
}

func (s *stripe) admit(x *exchange) bool {
	x.Header().Set("Request-Id", s.v.id("req_"))
	x.Header().Set("Stripe-Version", "2026-01-01")
	if !x.credential() {
		x.json(http.StatusUnauthorized, stripeError("invalid_request_error", "", "You did not provide an API key."))
		return false
	}
	return true
}

// write runs f at most once per idempotency key. The stored result comes back whatever it was; only answers to requests
// that never began (validation apart from the key, conflicts) are not stored.
func (s *stripe) write(action string, f func(*exchange, url.Values) (int, obj)) func(*exchange) {
	return func(x *exchange) {
		if !s.admit(x) {
			return
		}
		form, err := url.ParseQuery(string(x.body))
		if err != nil {
			x.json(http.StatusBadRequest, stripeError("invalid_request_error", "", "Invalid form body"))
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		key := x.r.Header.Get("Idempotency-Key")
		digest := sha256.Sum256([]byte(x.r.URL.Path + "\n" + form.Encode()))
		if key != "" {
			x.Header().Set("Idempotency-Key", key)
			if old, ok := s.keys[key]; ok {
				s.replay(x, old, digest)
				return
			}
		}
		status, out := f(x, form)
		if status == http.StatusOK {
			x.effect(action, fmt.Sprint(out["id"]))
		}
		if key != "" && status != http.StatusBadRequest {
			s.keys[key] = &stripeKey{x.Header().Get("Request-Id"), digest, status, out}
		}
		x.json(status, out)
	}
}

func (s *stripe) replay(x *exchange, old *stripeKey, digest [32]byte) {
	if old.digest != digest {
		x.json(http.StatusBadRequest, stripeError("idempotency_error", "",
			"Keys for idempotent requests can only be used with the same parameters they were first used with."))
		return
	}
	x.Header().Set("Idempotent-Replayed", "true")
	x.Header().Set("Original-Request", old.request)
	x.json(old.status, old.answer)
}

func (s *stripe) create(k stripeKind, f url.Values) (int, obj) {
	for _, name := range k.required {
		if f.Get(name) == "" {
			return http.StatusBadRequest, stripeError("invalid_request_error", "parameter_missing", "Missing required param: "+name+".")
		}
	}
	if f.Get("source") == "tok_chargeDeclined" {
		return http.StatusPaymentRequired, stripeError("card_error", "card_declined", "Your card was declined.")
	}
	id := s.v.id(k.prefix)
	o := obj{"id": id, "object": k.object, "created": time.Now().Unix(), "livemode": false, "metadata": obj{}}
	if k.status != "" {
		o["status"] = k.status
	}
	if k.object == "refund" {
		target := f.Get("charge") + f.Get("payment_intent")
		paid, ok := s.objects[target]
		if !ok {
			return http.StatusBadRequest, stripeError("invalid_request_error", "resource_missing", "No such charge: '"+target+"'")
		}
		o["amount"], o["currency"] = paid["amount"], paid["currency"]
	}
	maps.Copy(o, fields(f))
	s.objects[id] = o
	s.order = append(s.order, id)
	return http.StatusOK, o
}

func (s *stripe) update(x *exchange, f url.Values) (int, obj) {
	return s.set(x.r.PathValue("id"), fields(f))
}

// set makes a changed copy: an older answer under the same key keeps what it said.
func (s *stripe) set(id string, change obj) (int, obj) {
	old, ok := s.objects[id]
	if !ok {
		return http.StatusNotFound, stripeMissing(id)
	}
	o := maps.Clone(old)
	maps.Copy(o, change)
	s.objects[id] = o
	return http.StatusOK, o
}

func stripeMissing(id string) obj {
	return stripeError("invalid_request_error", "resource_missing", "No such object: '"+id+"'")
}

// fields turns a form into members: numbers where the value is one, one level of brackets as an object.
func fields(f url.Values) obj {
	o := obj{}
	for k, v := range f {
		var value any = v[0]
		if n, err := strconv.ParseInt(v[0], 10, 64); err == nil {
			value = n
		}
		outer, inner, nested := strings.Cut(strings.TrimSuffix(k, "]"), "[")
		if !nested {
			o[k] = value
			continue
		}
		m, ok := o[outer].(obj)
		if !ok {
			m = obj{}
			o[outer] = m
		}
		m[inner] = v[0]
	}
	return o
}

func (s *stripe) get(x *exchange) {
	s.mu.Lock()
	o, ok := s.objects[x.r.PathValue("id")]
	s.mu.Unlock()
	if !ok {
		x.json(http.StatusNotFound, stripeMissing(x.r.PathValue("id")))
		return
	}
	x.json(http.StatusOK, o)
}

// all lists the objects of one kind, newest first.
func (s *stripe) all(k stripeKind) []obj {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []obj{}
	for _, id := range slices.Backward(s.order) {
		if o := s.objects[id]; o["object"] == k.object {
			out = append(out, o)
		}
	}
	return out
}

func (s *stripe) list(x *exchange, k stripeKind) {
	all := s.all(k)
	if after := x.query("starting_after"); after != "" {
		i := slices.IndexFunc(all, func(o obj) bool { return o["id"] == after })
		all = all[i+1:]
	}
	n := min(positive(x.query("limit"), 10), len(all))
	x.json(http.StatusOK, obj{"object": "list", "url": "/v1/" + k.path, "has_more": n < len(all), "data": all[:n]})
}

var stripeQuery = regexp.MustCompile(`^metadata\[['"]([^'"]+)['"]\]:['"]([^'"]*)['"]$`)

// search knows one clause on metadata, which is what a look-up of an operation needs.
func (s *stripe) search(x *exchange, k stripeKind) {
	q := stripeQuery.FindStringSubmatch(x.query("query"))
	if q == nil {
		x.json(http.StatusBadRequest, stripeError("invalid_request_error", "", "We were unable to parse your search query."))
		return
	}
	found := []obj{}
	for _, o := range s.all(k) {
		if m, _ := o["metadata"].(obj); m[q[1]] == q[2] {
			found = append(found, o)
		}
	}
	x.json(http.StatusOK, obj{"object": "search_result", "url": "/v1/" + k.path + "/search", "has_more": false, "data": found})
}
