package fakevendor

import (
	"crypto/sha256"
	"encoding/json"
	"strings"
	"sync"
)

// cacheFrom is the prompt size from which a provider's cache answers a repeated prompt.
const cacheFrom = 1024

// model is the mind behind the fake providers: it repeats what it is told, and counts tokens in a way that a test can
// predict.
type model struct {
	mu   sync.Mutex
	seen map[[32]byte]bool
}

// reply is what the model says to one prompt.
type reply struct {
	pieces []string // one per output token
	tool   string   // name of the tool that it calls instead of speaking
	args   string   // the tool's arguments, JSON
	input  int      // tokens of the prompt
	cached int      // of them from the cache
	cut    bool     // the limit on output tokens ended the answer
}

func (r reply) text() string { return strings.Join(r.pieces, "") }

// output counts the tokens of the answer.
func (r reply) output() int {
	if r.tool != "" {
		return tokens(r.args)
	}
	return len(r.pieces)
}

// tokens is four bytes each, at least one.
func tokens(s string) int { return max(1, (len(s)+3)/4) }

// answer repeats the last thing the user said, or calls tool if one is offered. limit 0 = none.
func (m *model) answer(x *exchange, prompt, last, tool string, limit int) reply {
	r := reply{input: tokens(prompt)}
	if r.input >= cacheFrom {
		m.mu.Lock()
		key := sha256.Sum256([]byte(prompt))
		if m.seen == nil {
			m.seen = map[[32]byte]bool{}
		}
		if m.seen[key] {
			r.cached = r.input
		}
		m.seen[key] = true
		m.mu.Unlock()
	}
	if tool != "" {
		b, _ := json.Marshal(map[string]string{"input": last}) // strings always marshal
		r.tool, r.args = tool, string(b)
		return r
	}
	if x.fault.Kind == LongAnswer {
		for range x.fault.Tokens {
			r.pieces = append(r.pieces, "word ")
		}
	} else {
		r.pieces = strings.SplitAfter("You said: "+last, " ")
	}
	if limit > 0 && len(r.pieces) > limit {
		r.pieces, r.cut = r.pieces[:limit], true
	}
	return r
}

// usage is u, or nil where the script takes the usage away.
func (x *exchange) usage(u obj) obj {
	if x.fault.Kind == MissingUsage {
		return nil
	}
	return u
}

// halves splits a tool's arguments as providers do, in the middle of anything.
func halves(s string) [2]string { return [2]string{s[:len(s)/2], s[len(s)/2:]} }

// textOf reads content that is a string or an array of parts with a text member, the way all providers take it.
func textOf(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var parts []struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(raw, &parts) // anything else has no text
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}
