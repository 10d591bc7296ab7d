package fakevendor

import (
	"encoding/json"
	"net/http"
	"strings"
)

func newAnthropic(v *vendor) *http.ServeMux {
	a := &anthropic{v: v}
	m := http.NewServeMux()
	handle(m, "POST /v1/messages", a.checked(a.messages))
	handle(m, "POST /v1/messages/count_tokens", a.checked(a.count))
	return m
}

type anthropic struct {
	v     *vendor
	model model
}

// checked refuses what the real API refuses before it looks at the body.
func (a *anthropic) checked(f func(*exchange)) func(*exchange) {
	return func(x *exchange) {
		id := a.v.id("req_")
		x.Header().Set("Request-Id", id)
		switch {
		case x.r.Header.Get("X-Api-Key") == "" && x.bearer() == "":
			anthropicError(x, http.StatusUnauthorized, "authentication_error", "x-api-key header is required")
		case x.r.Header.Get("Anthropic-Version") == "":
			anthropicError(x, http.StatusBadRequest, "invalid_request_error", "anthropic-version: header is required")
		default:
			f(x)
		}
	}
}

func anthropicError(x *exchange, status int, kind, message string) {
	x.json(status, obj{
		"type": "error", "error": obj{"type": kind, "message": message}, "request_id": x.Header().Get("Request-Id"),
	})
}

type messagesRequest struct {
	Model     string          `json:"model"`
	MaxTokens int             `json:"max_tokens"`
	System    json.RawMessage `json:"system"`
	Messages  []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Stream bool `json:"stream"`
	Tools  []struct {
		Name string `json:"name"`
	} `json:"tools"`
	ToolChoice struct {
		Type string `json:"type"`
	} `json:"tool_choice"`
}

// prompt gives all text and the user's last words; those are empty if a tool's result came last.
func (q messagesRequest) prompt() (all, last string) {
	var b strings.Builder
	b.WriteString(textOf(q.System))
	for _, m := range q.Messages {
		last = textOf(m.Content)
		b.WriteString(last)
	}
	return b.String(), last
}

func (a *anthropic) messages(x *exchange) {
	var q messagesRequest
	if !x.decode(&q) || q.Model == "" || len(q.Messages) == 0 {
		anthropicError(x, http.StatusBadRequest, "invalid_request_error", "messages: at least one message is required")
		return
	}
	if q.MaxTokens <= 0 {
		anthropicError(x, http.StatusBadRequest, "invalid_request_error", "max_tokens: Field required")
		return
	}
	all, last := q.prompt()
	tool := ""
	if len(q.Tools) > 0 && last != "" && q.ToolChoice.Type != "none" {
		tool = q.Tools[0].Name
	}
	c := claude{x: x, id: a.v.id("msg_"), model: q.Model, reply: a.model.answer(x, all, last, tool, q.MaxTokens)}
	if q.Stream {
		c.stream()
		return
	}
	out := c.message([]obj{c.block(true)}, c.stop())
	if u := x.usage(c.usage(c.reply.output())); u != nil {
		out["usage"] = u
	}
	x.json(http.StatusOK, out)
}

func (a *anthropic) count(x *exchange) {
	var q messagesRequest
	if !x.decode(&q) || q.Model == "" {
		anthropicError(x, http.StatusBadRequest, "invalid_request_error", "model: Field required")
		return
	}
	all, _ := q.prompt()
	x.json(http.StatusOK, obj{"input_tokens": tokens(all)})
}

// claude is one answer of the Messages API.
type claude struct {
	x     *exchange
	id    string
	model string
	reply reply
}

func (c claude) stop() any {
	switch {
	case c.reply.tool != "":
		return "tool_use"
	case c.reply.cut:
		return "max_tokens"
	}
	return "end_turn"
}

func (c claude) message(content []obj, stop any) obj {
	return obj{
		"id": c.id, "type": "message", "role": "assistant", "model": c.model, "content": content,
		"stop_reason": stop, "stop_sequence": nil,
	}
}

// block is the one content block, empty at its start.
func (c claude) block(full bool) obj {
	if c.reply.tool != "" {
		input := json.RawMessage("{}")
		if full {
			input = json.RawMessage(c.reply.args)
		}
		return obj{"type": "tool_use", "id": "toolu_1", "name": c.reply.tool, "input": input}
	}
	if full {
		return obj{"type": "text", "text": c.reply.text()}
	}
	return obj{"type": "text", "text": ""}
}

// usage leaves cached tokens out of input_tokens, unlike the other providers.
func (c claude) usage(output int) obj {
	return obj{
		"input_tokens": c.reply.input - c.reply.cached, "cache_read_input_tokens": c.reply.cached,
		"cache_creation_input_tokens": 0, "output_tokens": output,
	}
}

// stream sends the typed events. message_start already counts one output token; message_delta carries the sum.
func (c claude) stream() {
	s := c.x.sse()
	send := func(event string, o obj) bool {
		o["type"] = event
		return s.send(event, o)
	}
	start := c.message([]obj{}, nil)
	start["usage"] = c.usage(1)
	send("message_start", obj{"message": start})
	send("content_block_start", obj{"index": 0, "content_block": c.block(false)})
	send("ping", obj{})
	if c.reply.tool != "" {
		for _, h := range halves(c.reply.args) {
			send("content_block_delta", obj{"index": 0, "delta": obj{"type": "input_json_delta", "partial_json": h}})
		}
	}
	for _, p := range c.reply.pieces {
		if !send("content_block_delta", obj{"index": 0, "delta": obj{"type": "text_delta", "text": p}}) {
			return
		}
	}
	send("content_block_stop", obj{"index": 0})
	end := obj{"delta": obj{"stop_reason": c.stop(), "stop_sequence": nil}}
	if u := c.x.usage(obj{"output_tokens": c.reply.output()}); u != nil {
		end["usage"] = u
	}
	send("message_delta", end)
	send("message_stop", obj{})
}
