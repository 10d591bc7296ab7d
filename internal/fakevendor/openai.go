package fakevendor

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"time"
)

func newOpenAI(v *vendor) *http.ServeMux {
	a := &openAI{v: v}
	m := http.NewServeMux()
	handle(m, "POST /v1/chat/completions", a.authed(a.chat))
	handle(m, "POST /v1/responses", a.authed(a.responses))
	handle(m, "POST /v1/embeddings", a.authed(a.embeddings))
	handle(m, "GET /v1/models", a.authed(a.models))
	return m
}

type openAI struct {
	v     *vendor
	model model
}

func (a *openAI) authed(f func(*exchange)) func(*exchange) {
	return func(x *exchange) {
		x.Header().Set("X-Request-Id", a.v.id("req_"))
		if x.bearer() == "" {
			openAIError(x, http.StatusUnauthorized, "You didn't provide an API key.")
			return
		}
		f(x)
	}
}

func openAIError(x *exchange, status int, message string) {
	x.json(status, obj{"error": obj{"message": message, "type": "invalid_request_error", "param": nil, "code": nil}})
}

type chatRequest struct {
	Model    string `json:"model"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Stream        bool `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	MaxTokens           int `json:"max_tokens"`
	MaxCompletionTokens int `json:"max_completion_tokens"`
	Tools               []struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tools"`
	ToolChoice any `json:"tool_choice"`
}

func (a *openAI) chat(x *exchange) {
	var q chatRequest
	if !x.decode(&q) {
		openAIError(x, http.StatusBadRequest, "We could not parse the JSON body of your request.")
		return
	}
	if q.Model == "" || len(q.Messages) == 0 {
		openAIError(x, http.StatusBadRequest, "you must provide a model and messages")
		return
	}
	q.answer(x, &a.model)
}

// answer lets the model speak in the chat completion shape, plain or streamed.
func (q chatRequest) answer(x *exchange, mind *model) {
	var prompt strings.Builder
	for _, m := range q.Messages {
		prompt.WriteString(textOf(m.Content))
	}
	lastMsg := q.Messages[len(q.Messages)-1]
	tool := ""
	if len(q.Tools) > 0 && lastMsg.Role == "user" && q.ToolChoice != "none" {
		tool = q.Tools[0].Function.Name
	}
	r := mind.answer(x, prompt.String(), textOf(lastMsg.Content), tool, max(q.MaxTokens, q.MaxCompletionTokens))
	c := chat{x: x, id: x.v.id("chatcmpl-"), model: q.Model, created: time.Now().Unix(), reply: r}
	if q.Stream {
		c.stream(q.StreamOptions.IncludeUsage)
		return
	}
	message := obj{"role": "assistant", "content": r.text(), "refusal": nil}
	if r.tool != "" {
		message["content"] = nil
		message["tool_calls"] = []obj{{"id": "call_1", "type": "function", "function": obj{"name": r.tool, "arguments": r.args}}}
	}
	out := obj{
		"id": c.id, "object": "chat.completion", "created": c.created, "model": c.model,
		"choices": []obj{{"index": 0, "message": message, "logprobs": nil, "finish_reason": c.finish()}},
	}
	if u := x.usage(c.usage()); u != nil {
		out["usage"] = u
	}
	x.json(http.StatusOK, out)
}

// chat is one answer in the chat completion shape.
type chat struct {
	x       *exchange
	id      string
	model   string
	created int64
	reply   reply
}

func (c chat) finish() string {
	switch {
	case c.reply.tool != "":
		return "tool_calls"
	case c.reply.cut:
		return "length"
	}
	return "stop"
}

func (c chat) usage() obj {
	in, out := c.reply.input, c.reply.output()
	return obj{
		"prompt_tokens": in, "completion_tokens": out, "total_tokens": in + out,
		"prompt_tokens_details":     obj{"cached_tokens": c.reply.cached},
		"completion_tokens_details": obj{"reasoning_tokens": 0},
	}
}

// stream sends chunks. With usage asked for, every chunk carries "usage": null but the last, which has no choices.
func (c chat) stream(includeUsage bool) {
	chunk := func(choices []obj) obj {
		o := obj{"id": c.id, "object": "chat.completion.chunk", "created": c.created, "model": c.model, "choices": choices}
		if includeUsage {
			o["usage"] = nil
		}
		return o
	}
	delta := func(d obj, finish any) obj {
		return chunk([]obj{{"index": 0, "delta": d, "logprobs": nil, "finish_reason": finish}})
	}
	s := c.x.sse()
	if c.reply.tool != "" {
		call := func(f obj) obj { return obj{"tool_calls": []obj{f}} }
		s.send("", delta(obj{"role": "assistant", "content": nil}, nil))
		s.send("", delta(call(obj{
			"index": 0, "id": "call_1", "type": "function", "function": obj{"name": c.reply.tool, "arguments": ""},
		}), nil))
		for _, h := range halves(c.reply.args) {
			s.send("", delta(call(obj{"index": 0, "function": obj{"arguments": h}}), nil))
		}
	} else {
		s.send("", delta(obj{"role": "assistant", "content": ""}, nil))
		for _, p := range c.reply.pieces {
			if !s.send("", delta(obj{"content": p}, nil)) {
				return
			}
		}
	}
	s.send("", delta(obj{}, c.finish()))
	if u := c.x.usage(c.usage()); includeUsage && u != nil {
		o := chunk([]obj{})
		o["usage"] = u
		s.send("", o)
	}
	s.send("", "[DONE]")
}

// embeddings answers with vectors of four numbers; the official SDK asks for base64.
func (a *openAI) embeddings(x *exchange) {
	var q struct {
		Model    string          `json:"model"`
		Input    json.RawMessage `json:"input"`
		Encoding string          `json:"encoding_format"`
	}
	if !x.decode(&q) || q.Model == "" || q.Input == nil {
		openAIError(x, http.StatusBadRequest, "you must provide a model and input")
		return
	}
	inputs := []string{}
	if json.Unmarshal(q.Input, &inputs) != nil {
		inputs = []string{textOf(q.Input)}
	}
	data, total := make([]obj, 0, len(inputs)), 0
	for i, in := range inputs {
		total += tokens(in)
		vec := []float32{float32(len(in)), 0.25, -0.5, 1}
		var value any = vec
		if q.Encoding == "base64" {
			var b []byte
			for _, f := range vec {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
			}
			value = base64.StdEncoding.EncodeToString(b)
		}
		data = append(data, obj{"object": "embedding", "index": i, "embedding": value})
	}
	x.json(http.StatusOK, obj{
		"object": "list", "model": q.Model, "data": data, "usage": obj{"prompt_tokens": total, "total_tokens": total},
	})
}

func (a *openAI) models(x *exchange) {
	list := []obj{}
	for _, n := range []string{"gpt-5", "gpt-5-mini", "text-embedding-3-small"} {
		list = append(list, obj{"id": n, "object": "model", "created": 1700000000, "owned_by": "openai"})
	}
	x.json(http.StatusOK, obj{"object": "list", "data": list})
}
