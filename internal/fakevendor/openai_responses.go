package fakevendor

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

type responsesRequest struct {
	Model           string          `json:"model"`
	Instructions    string          `json:"instructions"`
	Input           json.RawMessage `json:"input"`
	Stream          bool            `json:"stream"`
	MaxOutputTokens int             `json:"max_output_tokens"`
	Tools           []struct {
		Name string `json:"name"`
	} `json:"tools"`
	ToolChoice any `json:"tool_choice"`
}

// prompt gives all text, what came last, and whether that came from the user.
func (q responsesRequest) prompt() (all, last string, user bool) {
	var s string
	if json.Unmarshal(q.Input, &s) == nil {
		return q.Instructions + s, s, true
	}
	var items []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
		Output  string          `json:"output"`
	}
	_ = json.Unmarshal(q.Input, &items) // no text otherwise
	var b strings.Builder
	b.WriteString(q.Instructions)
	for _, it := range items {
		last, user = textOf(it.Content)+it.Output, it.Role == "user"
		b.WriteString(last)
	}
	return b.String(), last, user
}

// responses is the Responses API, plain and streamed.
func (a *openAI) responses(x *exchange) {
	var q responsesRequest
	if !x.decode(&q) || q.Model == "" || q.Input == nil {
		openAIError(x, http.StatusBadRequest, "you must provide a model and input")
		return
	}
	all, last, user := q.prompt()
	tool := ""
	if len(q.Tools) > 0 && user && q.ToolChoice != "none" {
		tool = q.Tools[0].Name
	}
	r := response{
		x: x, id: a.v.id("resp_"), item: a.v.id("msg_"), model: q.Model, created: time.Now().Unix(),
		reply: a.model.answer(x, all, last, tool, q.MaxOutputTokens),
	}
	if q.Stream {
		r.stream()
		return
	}
	x.json(http.StatusOK, r.object(r.status(), []obj{r.output(true)}))
}

// response is one answer of the Responses API.
type response struct {
	x       *exchange
	id      string
	item    string
	model   string
	created int64
	reply   reply
}

func (r response) status() string {
	if r.reply.cut {
		return "incomplete"
	}
	return "completed"
}

// object is the response resource; usage comes with its end only.
func (r response) object(status string, output []obj) obj {
	o := obj{
		"id": r.id, "object": "response", "created_at": r.created, "status": status, "model": r.model, "output": output,
		"error": nil, "incomplete_details": nil, "parallel_tool_calls": true, "tools": []obj{}, "metadata": obj{}, "usage": nil,
	}
	if status == "incomplete" {
		o["incomplete_details"] = obj{"reason": "max_output_tokens"}
	}
	if status == "in_progress" {
		return o
	}
	in, out := r.reply.input, r.reply.output()
	o["usage"] = r.x.usage(obj{
		"input_tokens": in, "input_tokens_details": obj{"cached_tokens": r.reply.cached},
		"output_tokens": out, "output_tokens_details": obj{"reasoning_tokens": 0}, "total_tokens": in + out,
	})
	return o
}

// output is the one output item, at its start or at its end.
func (r response) output(done bool) obj {
	if r.reply.tool != "" {
		o := obj{"type": "function_call", "id": r.item, "call_id": "call_1", "name": r.reply.tool, "arguments": "", "status": "in_progress"}
		if done {
			o["arguments"], o["status"] = r.reply.args, "completed"
		}
		return o
	}
	o := obj{"type": "message", "id": r.item, "role": "assistant", "status": "in_progress", "content": []obj{}}
	if done {
		o["status"], o["content"] = r.status(), []obj{r.part(r.reply.text())}
	}
	return o
}

func (r response) part(text string) obj {
	return obj{"type": "output_text", "text": text, "annotations": []obj{}, "logprobs": []obj{}}
}

// stream sends the typed events; the last one carries the whole response with its usage.
func (r response) stream() {
	s, seq := r.x.sse(), 0
	send := func(event string, o obj) bool {
		o["type"], o["sequence_number"] = event, seq
		seq++
		return s.send(event, o)
	}
	item := func(o obj) obj { o["item_id"], o["output_index"] = r.item, 0; return o }
	send("response.created", obj{"response": r.object("in_progress", []obj{})})
	send("response.in_progress", obj{"response": r.object("in_progress", []obj{})})
	send("response.output_item.added", obj{"output_index": 0, "item": r.output(false)})
	if r.reply.tool != "" {
		for _, h := range halves(r.reply.args) {
			send("response.function_call_arguments.delta", item(obj{"delta": h}))
		}
		send("response.function_call_arguments.done", item(obj{"arguments": r.reply.args}))
	} else {
		send("response.content_part.added", item(obj{"content_index": 0, "part": r.part("")}))
		for _, p := range r.reply.pieces {
			if !send("response.output_text.delta", item(obj{"content_index": 0, "delta": p, "logprobs": []obj{}})) {
				return
			}
		}
		send("response.output_text.done", item(obj{"content_index": 0, "text": r.reply.text(), "logprobs": []obj{}}))
		send("response.content_part.done", item(obj{"content_index": 0, "part": r.part(r.reply.text())}))
	}
	send("response.output_item.done", obj{"output_index": 0, "item": r.output(true)})
	send("response."+r.status(), obj{"response": r.object(r.status(), []obj{r.output(true)})})
}
