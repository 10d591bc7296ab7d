package fakevendor

import (
	"encoding/json"
	"net/http"
	"strings"
)

func newGemini(v *vendor) *http.ServeMux {
	g := &gemini{v: v}
	m := http.NewServeMux()
	handle(m, "POST /v1beta/models/{call}", g.call)
	handle(m, "GET /v1beta/models", func(x *exchange) {
		x.json(http.StatusOK, obj{"models": []obj{{"name": "models/gemini-3-flash", "displayName": "Gemini 3 Flash"}}})
	})
	return m
}

type gemini struct {
	v     *vendor
	model model
}

// thoughts is how many tokens the fake thinks unless thinking is switched off. They are billed, and no part of the text.
const thoughts = 5

type geminiRequest struct {
	System struct {
		Parts json.RawMessage `json:"parts"`
	} `json:"systemInstruction"`
	Contents []struct {
		Parts json.RawMessage `json:"parts"`
	} `json:"contents"`
	Tools []struct {
		Functions []struct {
			Name string `json:"name"`
		} `json:"functionDeclarations"`
	} `json:"tools"`
	Config struct {
		MaxOutputTokens int `json:"maxOutputTokens"`
		Thinking        struct {
			Budget *int `json:"thinkingBudget"`
		} `json:"thinkingConfig"`
	} `json:"generationConfig"`
}

// call serves the methods that hang on a model's name behind a colon.
func (g *gemini) call(x *exchange) {
	if x.r.Header.Get("X-Goog-Api-Key") == "" && x.query("key") == "" && x.bearer() == "" {
		geminiError(x, http.StatusForbidden, "PERMISSION_DENIED", "Method doesn't allow unregistered callers")
		return
	}
	name, method, _ := strings.Cut(x.r.PathValue("call"), ":")
	var q geminiRequest
	if !x.decode(&q) || len(q.Contents) == 0 {
		geminiError(x, http.StatusBadRequest, "INVALID_ARGUMENT", "contents is not specified")
		return
	}
	var all strings.Builder
	all.WriteString(textOf(q.System.Parts))
	last := ""
	for _, c := range q.Contents {
		last = textOf(c.Parts)
		all.WriteString(last)
	}
	tool := ""
	if len(q.Tools) > 0 && len(q.Tools[0].Functions) > 0 && last != "" {
		tool = q.Tools[0].Functions[0].Name
	}
	a := geminiAnswer{x: x, id: g.v.id(""), model: name, thoughts: thoughts}
	a.reply = g.model.answer(x, all.String(), last, tool, q.Config.MaxOutputTokens)
	if b := q.Config.Thinking.Budget; b != nil && *b == 0 {
		a.thoughts = 0
	}
	switch method {
	case "generateContent":
		x.json(http.StatusOK, a.object(a.parts(), a.reply.output(), true))
	case "streamGenerateContent":
		a.stream(x.query("alt") == "sse")
	case "countTokens":
		x.json(http.StatusOK, obj{"totalTokens": a.reply.input})
	default:
		geminiError(x, http.StatusNotFound, "NOT_FOUND", "no method "+method)
	}
}

func geminiError(x *exchange, status int, code, message string) {
	x.json(status, obj{"error": obj{"code": status, "message": message, "status": code}})
}

type geminiAnswer struct {
	x        *exchange
	id       string
	model    string
	reply    reply
	thoughts int
}

// parts is the whole answer.
func (a geminiAnswer) parts() []obj {
	if a.reply.tool != "" {
		return []obj{{"functionCall": obj{"name": a.reply.tool, "args": json.RawMessage(a.reply.args)}}}
	}
	return []obj{{"text": a.reply.text()}}
}

// object is an answer, or a piece of one, with the usage so far.
func (a geminiAnswer) object(parts []obj, output int, end bool) obj {
	candidate := obj{"index": 0, "content": obj{"role": "model", "parts": parts}}
	if end {
		candidate["finishReason"] = "STOP"
		if a.reply.cut {
			candidate["finishReason"] = "MAX_TOKENS"
		}
	}
	usage := obj{
		"promptTokenCount": a.reply.input, "candidatesTokenCount": output,
		"totalTokenCount": a.reply.input + output + a.thoughts,
	}
	if a.thoughts > 0 {
		usage["thoughtsTokenCount"] = a.thoughts
	}
	if a.reply.cached > 0 {
		usage["cachedContentTokenCount"] = a.reply.cached
	}
	o := obj{"candidates": []obj{candidate}, "modelVersion": a.model, "responseId": a.id}
	if u := a.x.usage(usage); u != nil {
		o["usageMetadata"] = u
	}
	return o
}

// stream sends frames, or one JSON array to who did not ask for server-sent events.
func (a geminiAnswer) stream(sse bool) {
	frames := []obj{a.object(a.parts(), a.reply.output(), true)}
	if a.reply.tool == "" {
		frames = frames[:0]
		for i, p := range a.reply.pieces {
			frames = append(frames, a.object([]obj{{"text": p}}, i+1, i == len(a.reply.pieces)-1))
		}
	}
	if !sse {
		a.x.json(http.StatusOK, frames)
		return
	}
	s := a.x.sse()
	for _, f := range frames {
		if !s.send("", f) {
			return
		}
	}
}
