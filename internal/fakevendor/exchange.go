package fakevendor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// obj is a JSON object of an answer.
type obj = map[string]any

// exchange is one request and the way to answer it.
type exchange struct {
	http.ResponseWriter
	r        *http.Request
	v        *vendor
	body     []byte
	id       int64
	fault    Fault
	interval time.Duration // pause between stream frames
}

// Unwrap lets http.ResponseController reach the server's writer.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// handle registers a route. ServeMux fills the path values of the very request that the exchange wraps.
func handle(m *http.ServeMux, pattern string, f func(*exchange)) {
	m.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		x := w.(*exchange) // vendor.route is the only caller
		x.r = r
		f(x)
	})
}

// effect records that the vendor has done what was asked.
func (x *exchange) effect(action, id string) {
	e := Effect{
		Vendor: x.v.name, Action: action, ID: id, Request: x.id, Time: time.Now(),
		Method: x.r.Method, Target: x.r.RequestURI, Header: x.r.Header.Clone(), Body: x.body,
	}
	if e.Target == "" {
		e.Target = x.r.URL.RequestURI()
	}
	x.v.mu.Lock()
	defer x.v.mu.Unlock()
	x.v.effects = last(append(x.v.effects, e), x.v.keep)
}

// base is the fake's own root. Forwarding headers of the request are not asked: real vendors name themselves, too.
func (x *exchange) base() string {
	if b := x.v.baseURL(); b != "" {
		return b
	}
	return "http://" + x.r.Host
}

// json answers with v.
func (x *exchange) json(status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("fakevendor: answer of %s %s: %v", x.v.name, x.r.URL.Path, err))
	}
	x.Header().Set("Content-Type", "application/json")
	x.Header().Set("Content-Length", fmt.Sprint(len(b)))
	x.WriteHeader(status)
	_, _ = x.Write(b)
}

// decode reads a JSON body into v and reports whether it is one.
func (x *exchange) decode(v any) bool {
	d := json.NewDecoder(bytes.NewReader(x.body))
	return d.Decode(v) == nil
}

// mediaType is the request's content type without parameters.
func (x *exchange) mediaType() string {
	t, _, err := mime.ParseMediaType(x.r.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return t
}

// form reads a urlencoded body.
func (x *exchange) form() url.Values {
	v, err := url.ParseQuery(string(x.body))
	if err != nil {
		return url.Values{}
	}
	return v
}

// bearer is the token of an Authorization header with that scheme.
func (x *exchange) bearer() string {
	scheme, token, ok := strings.Cut(x.r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return token
}

// credential reports whether the request carries any bearer or basic credential.
func (x *exchange) credential() bool {
	if x.bearer() != "" {
		return true
	}
	user, _, ok := x.r.BasicAuth()
	return ok && user != ""
}

// query is the first value of a query parameter.
func (x *exchange) query(name string) string { return x.r.URL.Query().Get(name) }
