package fakevendor

import (
	"net/http"
	"slices"
	"sync"
)

func newTwilio(v *vendor) *http.ServeMux {
	t := &twilio{v: v}
	m := http.NewServeMux()
	handle(m, "POST /2010-04-01/Accounts/{account}/Messages.json", t.send)
	handle(m, "GET /2010-04-01/Accounts/{account}/Messages.json", t.list)
	handle(m, "GET /2010-04-01/Accounts/{account}/Messages/{sid}", t.get)
	return m
}

type twilio struct {
	v *vendor

	mu       sync.Mutex
	messages []obj // newest first
}

func twilioError(x *exchange, status, code int, message string) {
	x.json(status, obj{"code": code, "message": message, "status": status, "more_info": "https://www.twilio.com/docs/errors"})
}

func (t *twilio) authed(x *exchange) bool {
	if !x.credential() {
		twilioError(x, http.StatusUnauthorized, 20003, "Authenticate")
		return false
	}
	return true
}

// send takes a form and knows no idempotency: the same request twice is two messages.
func (t *twilio) send(x *exchange) {
	if !t.authed(x) {
		return
	}
	f := x.form()
	switch {
	case f.Get("To") == "":
		twilioError(x, http.StatusBadRequest, 21604, "A 'To' phone number is required.")
		return
	case f.Get("From") == "" && f.Get("MessagingServiceSid") == "":
		twilioError(x, http.StatusBadRequest, 21603, "A 'From' phone number is required.")
		return
	case f.Get("Body") == "" && f.Get("MediaUrl") == "":
		twilioError(x, http.StatusBadRequest, 21602, "Message body is required.")
		return
	}
	account := x.r.PathValue("account")
	sid := t.v.id("SM")
	msg := obj{
		"sid": sid, "account_sid": account, "to": f.Get("To"), "from": f.Get("From"), "body": f.Get("Body"),
		"status": "queued", "direction": "outbound-api", "num_segments": "1", "num_media": "0", "price": nil,
		"price_unit": "USD", "error_code": nil, "error_message": nil, "api_version": "2010-04-01",
		"date_created": "Thu, 01 Jan 2026 00:00:00 +0000",
		"uri":          "/2010-04-01/Accounts/" + account + "/Messages/" + sid + ".json",
	}
	t.mu.Lock()
	t.messages = append([]obj{msg}, t.messages...)
	t.mu.Unlock()
	x.effect("message.create", sid)
	x.json(http.StatusCreated, msg)
}

func (t *twilio) list(x *exchange) {
	if !t.authed(x) {
		return
	}
	out := []obj{}
	t.mu.Lock()
	for _, m := range t.messages {
		if to := x.query("To"); to == "" || m["to"] == to {
			out = append(out, m)
		}
	}
	t.mu.Unlock()
	x.json(http.StatusOK, obj{
		"messages": out, "page": 0, "page_size": 50, "start": 0, "end": max(0, len(out)-1),
		"uri": x.r.URL.RequestURI(), "first_page_uri": x.r.URL.RequestURI(), "next_page_uri": nil, "previous_page_uri": nil,
	})
}

func (t *twilio) get(x *exchange) {
	if !t.authed(x) {
		return
	}
	t.mu.Lock()
	i := slices.IndexFunc(t.messages, func(m obj) bool { return m["sid"].(string)+".json" == x.r.PathValue("sid") })
	var msg obj
	if i >= 0 {
		msg = t.messages[i]
	}
	t.mu.Unlock()
	if msg == nil {
		twilioError(x, http.StatusNotFound, 20404, "The requested resource was not found")
		return
	}
	x.json(http.StatusOK, msg)
}
