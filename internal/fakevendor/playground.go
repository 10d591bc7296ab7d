package fakevendor

import "net/http"

// newPlayground is the destination for a first try, without a key: records to read and write, messages to send, a model to
// ask.
func newPlayground(v *vendor) *http.ServeMux {
	p := &playground{v: v}
	records := &items{v: v, path: "/records", noun: "record", list: []obj{
		{"id": "a", "title": "Order 1001", "state": "paid"},
		{"id": "b", "title": "Order 1002", "state": "open"},
	}}
	m := http.NewServeMux()
	records.routes(m)
	handle(m, "POST /messages", p.message)
	handle(m, "POST /chat/completions", p.chat)
	return m
}

type playground struct {
	v     *vendor
	model model
}

func (p *playground) message(x *exchange) {
	var q struct {
		To   string `json:"to"`
		Text string `json:"text"`
	}
	if !x.decode(&q) || q.To == "" || q.Text == "" {
		x.json(http.StatusBadRequest, obj{"error": `want {"to": "…", "text": "…"}`})
		return
	}
	id := p.v.id("msg_")
	x.effect("message.send", id)
	x.json(http.StatusOK, obj{"id": id, "to": q.To, "status": "delivered"})
}

// chat speaks OpenAI's chat completions; the model's name may be left out.
func (p *playground) chat(x *exchange) {
	var q chatRequest
	if !x.decode(&q) || len(q.Messages) == 0 {
		openAIError(x, http.StatusBadRequest, "you must provide messages")
		return
	}
	if q.Model == "" {
		q.Model = "playground"
	}
	q.answer(x, &p.model)
}
