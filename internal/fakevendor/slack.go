package fakevendor

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"sync"
)

func newSlack(v *vendor) *http.ServeMux {
	s := &slack{v: v, history: map[string][]obj{}}
	m := http.NewServeMux()
	for name, f := range map[string]func(*exchange, params){
		"auth.test":                    s.authTest,
		"chat.delete":                  s.remove,
		"chat.postMessage":             s.post,
		"chat.update":                  s.update,
		"conversations.history":        s.list,
		"conversations.list":           s.channels,
		"conversations.open":           s.open,
		"conversations.replies":        s.list,
		"files.completeUploadExternal": s.share,
		"files.getUploadURLExternal":   s.uploadURL,
		"users.list":                   s.users,
	} {
		// Slack answers every method to GET and POST alike.
		handle(m, "/api/"+name, s.method(f))
	}
	handle(m, "POST /upload/v1/{id}", func(x *exchange) {
		_, _ = fmt.Fprintf(x, "OK - %d", len(x.body))
	})
	handle(m, "/api/", func(x *exchange) { slackError(x, "unknown_method") })
	return m
}

// slack keeps what was posted, per channel, newest first. It answers refusals with 200 and ok false.
type slack struct {
	v *vendor

	mu      sync.Mutex
	history map[string][]obj
}

// params are the arguments of a method, wherever they came from. A JSON body keeps its types, a form's values are strings.
type params map[string]any

func (p params) str(name string) string {
	s, _ := p[name].(string)
	return s
}

// nested is an argument that is an object or array: as JSON, or as a string of JSON in a form.
func (p params) nested(name string) any {
	s, ok := p[name].(string)
	if !ok {
		return p[name]
	}
	var v any
	if json.Unmarshal([]byte(s), &v) != nil {
		return nil
	}
	return v
}

func slackError(x *exchange, code string) { x.json(http.StatusOK, obj{"ok": false, "error": code}) }

// method reads arguments and token as Slack does: from the query, from a form, or from JSON if the type says so.
func (s *slack) method(f func(*exchange, params)) func(*exchange) {
	return func(x *exchange) {
		p := params{}
		for k, v := range x.r.URL.Query() {
			p[k] = v[0]
		}
		switch x.mediaType() {
		case "application/json":
			if !x.decode(&p) {
				slackError(x, "invalid_json")
				return
			}
			delete(p, "token") // a token in JSON is not taken
		case "application/x-www-form-urlencoded":
			for k, v := range x.form() {
				p[k] = v[0]
			}
		}
		token := x.bearer()
		if token == "" {
			token = p.str("token")
		}
		switch token {
		case "":
			slackError(x, "not_authed")
		case "xoxb-invalid":
			slackError(x, "invalid_auth")
		default:
			f(x, p)
		}
	}
}

var slackID = regexp.MustCompile(`^[CDGU][A-Z0-9]{2,}$`)

// channel gives a channel's id; a well-formed id exists unless it is C404, of the names only two do.
func (s *slack) channel(name string) (string, bool) {
	switch name {
	case "general", "#general":
		return "C0GENERAL", true
	case "random", "#random":
		return "C0RANDOM", true
	}
	return name, slackID.MatchString(name) && name != "C404"
}

func (s *slack) post(x *exchange, p params) {
	ch, ok := s.channel(p.str("channel"))
	if !ok {
		slackError(x, "channel_not_found")
		return
	}
	if p.str("text") == "" && p["blocks"] == nil && p["attachments"] == nil {
		slackError(x, "no_text")
		return
	}
	ts := fmt.Sprintf("1700000000.%06d", s.v.nextID())
	msg := obj{"type": "message", "text": p.str("text"), "ts": ts, "user": "U0BOT", "bot_id": "B0BOT", "app_id": "A0APP", "team": "T0TEAM"}
	for _, k := range []string{"blocks", "attachments", "metadata"} {
		if v := p.nested(k); v != nil {
			msg[k] = v
		}
	}
	if t := p.str("thread_ts"); t != "" {
		msg["thread_ts"] = t
	}
	s.mu.Lock()
	s.history[ch] = append([]obj{msg}, s.history[ch]...)
	s.history[ch] = s.history[ch][:min(len(s.history[ch]), 1000)]
	s.mu.Unlock()
	x.effect("chat.postMessage", ts)
	x.json(http.StatusOK, obj{"ok": true, "channel": ch, "ts": ts, "message": msg})
}

// find is the place of a message in a channel, -1 if there is none. The caller holds the lock.
func (s *slack) find(ch, ts string) int {
	return slices.IndexFunc(s.history[ch], func(m obj) bool { return m["ts"] == ts })
}

func (s *slack) update(x *exchange, p params) {
	ch, ts := p.str("channel"), p.str("ts")
	s.mu.Lock()
	i := s.find(ch, ts)
	var msg obj
	if i >= 0 {
		msg = obj{}
		for k, v := range s.history[ch][i] { // a copy: an answer under way may still read the old one
			msg[k] = v
		}
		msg["text"], msg["edited"] = p.str("text"), obj{"user": "U0BOT", "ts": ts}
		s.history[ch][i] = msg
	}
	s.mu.Unlock()
	if msg == nil {
		slackError(x, "message_not_found")
		return
	}
	x.effect("chat.update", ts)
	x.json(http.StatusOK, obj{"ok": true, "channel": ch, "ts": ts, "text": p.str("text"), "message": msg})
}

func (s *slack) remove(x *exchange, p params) {
	ch, ts := p.str("channel"), p.str("ts")
	s.mu.Lock()
	i := s.find(ch, ts)
	if i >= 0 {
		s.history[ch] = slices.Delete(s.history[ch], i, i+1)
	}
	s.mu.Unlock()
	if i < 0 {
		slackError(x, "message_not_found")
		return
	}
	x.effect("chat.delete", ts)
	x.json(http.StatusOK, obj{"ok": true, "channel": ch, "ts": ts})
}

// list is history and replies; metadata comes only to who asks for it.
func (s *slack) list(x *exchange, p params) {
	ch, ok := s.channel(p.str("channel"))
	if !ok {
		slackError(x, "channel_not_found")
		return
	}
	all := p["include_all_metadata"] == true || p["include_all_metadata"] == "true"
	thread := p.str("ts") // replies only
	out := []obj{}
	s.mu.Lock()
	for _, m := range s.history[ch] {
		if thread != "" && m["ts"] != thread && m["thread_ts"] != thread {
			continue
		}
		c := obj{}
		for k, v := range m {
			if k != "metadata" || all {
				c[k] = v
			}
		}
		out = append(out, c)
	}
	s.mu.Unlock()
	x.json(http.StatusOK, obj{"ok": true, "messages": out, "has_more": false, "response_metadata": obj{"next_cursor": ""}})
}

func (s *slack) channels(x *exchange, _ params) {
	x.json(http.StatusOK, obj{"ok": true, "response_metadata": obj{"next_cursor": ""}, "channels": []obj{
		{"id": "C0GENERAL", "name": "general", "is_channel": true, "num_members": 3},
		{"id": "C0RANDOM", "name": "random", "is_channel": true, "num_members": 2},
	}})
}

func (s *slack) open(x *exchange, p params) {
	if p.str("users") == "" {
		slackError(x, "users_list_not_supplied")
		return
	}
	x.json(http.StatusOK, obj{"ok": true, "channel": obj{"id": "D0" + slackName(p.str("users"))}})
}

// slackName keeps what may stand in an id.
func slackName(s string) string {
	return regexp.MustCompile(`[^A-Z0-9]`).ReplaceAllString(s, "")
}

func (s *slack) users(x *exchange, _ params) {
	x.json(http.StatusOK, obj{"ok": true, "response_metadata": obj{"next_cursor": ""}, "members": []obj{
		{"id": "U0ADA", "name": "ada", "real_name": "Ada", "is_bot": false},
		{"id": "U0BOT", "name": "agent", "real_name": "Agent", "is_bot": true},
	}})
}

func (s *slack) authTest(x *exchange, _ params) {
	x.json(http.StatusOK, obj{
		"ok": true, "url": "https://fake.slack.com/", "team": "Fake", "user": "agent",
		"team_id": "T0TEAM", "user_id": "U0BOT", "bot_id": "B0BOT",
	})
}

// uploadURL answers with an absolute address at the fake itself, in the body and not in a header.
func (s *slack) uploadURL(x *exchange, p params) {
	if p.str("filename") == "" {
		slackError(x, "invalid_arguments")
		return
	}
	id := s.v.id("F")
	x.json(http.StatusOK, obj{"ok": true, "upload_url": x.base() + "/upload/v1/" + id, "file_id": id})
}

// share makes an upload visible, which is the moment that people see it.
func (s *slack) share(x *exchange, p params) {
	files := p.nested("files")
	if files == nil {
		slackError(x, "invalid_arguments")
		return
	}
	x.effect("files.completeUploadExternal", s.v.id("F"))
	x.json(http.StatusOK, obj{"ok": true, "files": files})
}
