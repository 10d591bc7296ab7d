package connector

import (
	"bytes"
	"strconv"

	"github.com/stoplog/stoplog"
)

// meter finds what a model call consumed, in the provider's figures and by counting what was delivered.
type meter struct {
	format UsageFormat
	stream bool

	input, cached, output figure
	final                 bool       // output is the provider's last word
	ended                 bool       // the stream's last event was seen
	failed                bool       // the provider reported an error in the stream
	delivered             tokenCount // text that reached us
	deltas                int64      // events with text: providers send about one token each
	frames                int64
	model                 string // as the answer names it
}

// figure is a number that a provider said. Said zero and not said are two values.
type figure struct {
	n    int64
	said bool
}

func (f *figure) set(d *document, path ...string) bool {
	n := d.find(path...)
	if n == nil || n.kind != '0' {
		return false
	}
	v, err := strconv.ParseUint(d.text(n), 10, 50)
	if err != nil {
		return false
	}
	*f = figure{int64(v), true}
	return true
}

// raise is set, but never lowers.
func (f *figure) raise(d *document, path ...string) {
	var g figure
	if g.set(d, path...) {
		*f = figure{max(f.n, g.n), true}
	}
}

// event reads the data of one stream event.
func (m *meter) event(data []byte) {
	data = bytes.TrimSpace(data)
	if string(data) == "[DONE]" {
		m.ended = true
		return
	}
	r := parsePrefix(data)
	m.document(&r.doc)
	r.release()
}

// skipped counts an event that was too large to keep.
func (m *meter) skipped(n int) {
	m.frames++
	m.delivered.ascii += int64(n)
}

// document reads an event, or a whole answer.
func (m *meter) document(d *document) {
	if d.root() == nil {
		return
	}
	m.frames++
	before := m.delivered
	switch m.format {
	case UsageOpenAIChat, UsageEmbeddings:
		m.openaiChat(d)
	case UsageOpenAIResponses:
		m.openaiResponses(d)
	case UsageAnthropic:
		m.anthropic(d)
	case UsageGemini:
		m.gemini(d)
	default:
		m.countTexts(d, 0)
	}
	if m.delivered != before {
		m.deltas++
	}
}

// countTexts adds all texts below node i.
func (m *meter) countTexts(d *document, i int32) {
	for k := i; k < d.nodes[i].next; k++ {
		n := &d.nodes[k]
		if n.kind != '"' {
			continue
		}
		b := d.raw[n.start+1 : n.end-1]
		if n.escaped {
			b = []byte(d.text(n))
		}
		m.delivered.bytes(b)
		if !isMedia(b) {
			m.delivered.flat -= textOverhead // a delta is no message
		}
	}
}

func (m *meter) name(d *document, path ...string) {
	if m.model == "" {
		m.model = clip(d.str(path...), 128)
	}
}

// openaiChat reads chat completions. The last chunk of a stream carries the usage if the request asked for it with
// stream_options.include_usage; otherwise no chunk does (BerriAI/litellm#3490).
func (m *meter) openaiChat(d *document) {
	m.name(d, "model")
	if d.find("error") != nil {
		m.failed = true
	}
	if m.output.set(d, "usage", "completion_tokens") {
		m.final = m.final || !m.stream
	}
	m.input.set(d, "usage", "prompt_tokens")
	m.cached.set(d, "usage", "prompt_tokens_details", "cached_tokens")
	if m.format == UsageEmbeddings {
		m.ended = true
		return
	}
	list := d.memberOf("choices")
	if list < 0 {
		return
	}
	empty := true
	for c := list + 1; c < d.nodes[list].next; c = d.nodes[c].next {
		empty = false
		for _, name := range [...]string{"delta", "message", "text"} {
			if i := d.member(c, name); i >= 0 {
				m.countTexts(d, i)
			}
		}
		if i := d.member(c, "finish_reason"); i >= 0 && d.nodes[i].kind == '"' {
			m.ended = true
		}
	}
	if empty && m.output.said {
		m.final = true
	}
}

// openaiResponses reads the Responses API: usage stands in the answer, or in the last event (completed, incomplete, failed).
func (m *meter) openaiResponses(d *document) {
	kind := d.str("type")
	at := []string{"response", "usage"}
	switch kind {
	case "": // not streamed
		at = at[1:]
		m.name(d, "model")
		if i := d.memberOf("output"); i >= 0 {
			m.countTexts(d, i)
		}
	case "error":
		m.failed = true
		return
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		m.ended, m.failed = true, kind == "response.failed"
	default:
		m.name(d, "response", "model")
		if i := d.memberOf("delta"); i >= 0 {
			m.countTexts(d, i)
		}
		return
	}
	m.name(d, "response", "model")
	if m.output.set(d, append(at, "output_tokens")...) {
		m.final = true
	}
	m.input.set(d, append(at, "input_tokens")...)
	m.cached.set(d, append(at, "input_tokens_details", "cached_tokens")...)
}

// anthropic reads the Messages API. message_start carries the input and a placeholder for the output (BerriAI/litellm#39893);
// the usage of message_delta is cumulative: the last one counts, and is never added.
func (m *meter) anthropic(d *document) {
	switch d.str("type") {
	case "message_start":
		m.name(d, "message", "model")
		m.anthropicUsage(d, "message", "usage")
		m.output = figure{}
	case "message_delta":
		m.anthropicUsage(d, "usage")
		m.final = m.final || m.output.said
	case "message_stop":
		m.ended = true
	case "error":
		m.failed = true
	case "content_block_start":
		if i := d.memberOf("content_block"); i >= 0 {
			if t := d.member(i, "text"); t >= 0 {
				m.countTexts(d, t)
			}
		}
	case "content_block_delta":
		if i := d.memberOf("delta"); i >= 0 && d.str("delta", "type") != "signature_delta" {
			for _, name := range [...]string{"text", "partial_json", "thinking"} {
				if t := d.member(i, name); t >= 0 {
					m.countTexts(d, t)
				}
			}
		}
	case "message": // not streamed
		m.name(d, "model")
		m.anthropicUsage(d, "usage")
		m.final = m.output.said
		if i := d.memberOf("content"); i >= 0 {
			m.countTexts(d, i)
		}
	default: // count_tokens and what is yet to come
		if m.input.set(d, "input_tokens") {
			m.output, m.final = figure{0, true}, true
		}
	}
}

func (m *meter) anthropicUsage(d *document, at ...string) {
	m.output.set(d, append(at, "output_tokens")...)
	var fresh, read, made figure
	if !fresh.set(d, append(at, "input_tokens")...) {
		return
	}
	// input_tokens leaves cached tokens out, unlike the other providers'.
	read.set(d, append(at, "cache_read_input_tokens")...)
	made.set(d, append(at, "cache_creation_input_tokens")...)
	if n := fresh.n + read.n + made.n; n >= m.input.n {
		m.input, m.cached = figure{n, true}, figure{read.n, true}
	}
}

// gemini reads generateContent. Every chunk may carry usageMetadata, some nothing else (docker/docker-agent#2848); figures
// grow, so the largest counts. Thoughts are billed as output.
func (m *meter) gemini(d *document) {
	m.name(d, "modelVersion")
	if d.find("error") != nil {
		m.failed = true
	}
	const at = "usageMetadata"
	var prompt, tools figure
	if prompt.set(d, at, "promptTokenCount") {
		tools.set(d, at, "toolUsePromptTokenCount")
		m.input = figure{max(m.input.n, prompt.n+tools.n), true}
		// A field of value zero is left out of JSON written from protobuf.
		var text, thoughts figure
		text.set(d, at, "candidatesTokenCount")
		thoughts.set(d, at, "thoughtsTokenCount")
		m.output = figure{max(m.output.n, text.n+thoughts.n), text.said || thoughts.said || m.output.said}
		m.final = m.final || !m.stream && m.output.said
	}
	m.cached.raise(d, at, "cachedContentTokenCount")
	list := d.memberOf("candidates")
	if list < 0 {
		return
	}
	for c := list + 1; c < d.nodes[list].next; c = d.nodes[c].next {
		if i := d.member(c, "content"); i >= 0 {
			if p := d.member(i, "parts"); p >= 0 {
				m.countTexts(d, p)
			}
		}
		if i := d.member(c, "finishReason"); i >= 0 && d.nodes[i].kind == '"' {
			m.ended = true
		}
	}
}

// usage is what was consumed. whole says that the answer's framing ended as announced. asked is the request's own estimate.
func (m *meter) usage(asked int64, whole bool) stoplog.Usage {
	u := stoplog.Usage{Known: true, Input: asked, Estimated: true}
	if m.input.said {
		u.Input, u.Cached = m.input.n, min(m.cached.n, m.input.n)
	}
	if m.format == UsageEmbeddings {
		u.Estimated = !m.input.said
		return u
	}
	count := max(m.delivered.tokens(), m.streamed())
	switch {
	case m.final, m.output.said && whole && (m.ended || !m.stream):
		u.Output, u.Estimated = m.output.n, !m.input.said
	default:
		u.Output = max(count, m.output.n)
	}
	return u
}

func (m *meter) streamed() int64 {
	if m.stream {
		return m.deltas
	}
	return 0
}

// memberOf is the named member of the root, or -1.
func (d *document) memberOf(name string) int32 {
	if len(d.nodes) == 0 {
		return -1
	}
	return d.member(0, name)
}
