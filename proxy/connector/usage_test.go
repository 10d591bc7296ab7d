package connector

import (
	"bytes"
	"compress/flate"
	"compress/zlib"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stoplog/stoplog"
)

func modelReading(t testing.TB, format UsageFormat, stream bool) *Reading {
	s := testSpec()
	for i := range s.Operations {
		if s.Operations[i].Action == "chat" {
			s.Operations[i].Model.Usage = format
		}
	}
	return classify(t, compile(t, s), request("POST /chat", fmt.Sprintf(`{"model":"m","stream":%v,"messages":[{"role":"user","content":"hi"}]}`, stream), asJSON))
}

func sse(events ...string) string {
	return "data: " + strings.Join(events, "\n\ndata: ") + "\n\n"
}

const (
	chatDelta  = `{"model":"m-1","choices":[{"index":0,"delta":{"content":"four words of text"},"finish_reason":null}],"usage":null}`
	chatFinish = `{"model":"m-1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	chatUsage  = `{"model":"m-1","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":40,"total_tokens":140,"prompt_tokens_details":{"cached_tokens":64}}}`

	claudeStart = `{"type":"message_start","message":{"model":"claude","usage":{"input_tokens":10,"cache_read_input_tokens":30,"cache_creation_input_tokens":5,"output_tokens":1}}}`
	claudeDelta = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"four words of text"}}`
	claudeEnd   = `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":%d}}`
	claudeStop  = `{"type":"message_stop"}`

	respDelta = `{"type":"response.output_text.delta","delta":"four words of text"}`
	respDone  = `{"type":"response.%s","response":{"model":"m-1","usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":64},"output_tokens":40}}}`

	geminiChunk = `{"candidates":[{"content":{"parts":[{"text":"four words of text"}]}}],"usageMetadata":{"promptTokenCount":100,"candidatesTokenCount":%d},"modelVersion":"g-1"}`
	geminiEnd   = `{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":100,"cachedContentTokenCount":64,"candidatesTokenCount":25,"thoughtsTokenCount":15}}`
)

func TestUsage(t *testing.T) {
	exact := stoplog.Usage{Input: 100, Cached: 64, Output: 40, Known: true}
	claude := stoplog.Usage{Input: 45, Cached: 30, Output: 40, Known: true}
	deltas := func(s string, n int) []string { return slices.Repeat([]string{s}, n) }
	for _, tc := range []struct {
		name    string
		format  UsageFormat
		body    string
		plain   bool // a document
		cut     bool
		gone    bool
		want    stoplog.Usage // Input 0 = the request's estimate
		outcome stoplog.Outcome
		flags   string
	}{
		{name: "chat with include_usage", format: UsageOpenAIChat, body: sse(chatDelta, chatFinish, chatUsage, "[DONE]"), want: exact, outcome: stoplog.OutcomeConfirmed},
		// BerriAI/litellm#3490: without the option no chunk carries usage; it is counted and never zero.
		{name: "chat without include_usage", format: UsageOpenAIChat, body: sse(append(deltas(chatDelta, 10), chatFinish, "[DONE]")...), want: stoplog.Usage{Output: 45, Known: true, Estimated: true}, outcome: stoplog.OutcomeConfirmed},
		// BerriAI/litellm#33736: the client left, or the stream broke, before the usage.
		{name: "chat cut", format: UsageOpenAIChat, body: sse(deltas(chatDelta, 10)...), cut: true, want: stoplog.Usage{Output: 45, Known: true, Estimated: true}, outcome: stoplog.OutcomeUnknown, flags: FlagTruncated},
		{name: "chat abandoned", format: UsageOpenAIChat, body: sse(deltas(chatDelta, 10)...), gone: true, want: stoplog.Usage{Output: 45, Known: true, Estimated: true}, outcome: stoplog.OutcomeConfirmed, flags: FlagAbandoned},
		{name: "chat cut after the usage", format: UsageOpenAIChat, body: sse(chatDelta, chatFinish, chatUsage), cut: true, want: exact, outcome: stoplog.OutcomeUnknown, flags: FlagTruncated},
		{name: "running figures, cut", format: UsageOpenAIChat, body: sse(`{"choices":[{"delta":{"content":"x"}}],"usage":{"prompt_tokens":100,"completion_tokens":7}}`), cut: true, want: stoplog.Usage{Input: 100, Output: 7, Known: true, Estimated: true}, outcome: stoplog.OutcomeUnknown, flags: FlagTruncated},
		{name: "one-letter deltas are a token each", format: UsageOpenAIChat, body: sse(deltas(`{"choices":[{"delta":{"content":"a"}}]}`, 50)...), cut: true, want: stoplog.Usage{Output: 50, Known: true, Estimated: true}, outcome: stoplog.OutcomeUnknown, flags: FlagTruncated},
		{name: "tool arguments count", format: UsageOpenAIChat, body: sse(`{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"` + strings.Repeat("x", 400) + `"}}]}}]}`), cut: true, want: stoplog.Usage{Output: 100, Known: true, Estimated: true}, outcome: stoplog.OutcomeUnknown, flags: FlagTruncated},
		// BerriAI/litellm#37992: a zero that was said is a zero.
		{name: "zero that was said", format: UsageOpenAIChat, body: sse(chatDelta, chatFinish, `{"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0}}`, "[DONE]"), want: stoplog.Usage{Known: true, Input: -1}, outcome: stoplog.OutcomeConfirmed},
		{name: "usage in an event without its blank line", format: UsageOpenAIChat, body: strings.TrimRight(sse(chatDelta, chatFinish, chatUsage), "\n"), want: exact, outcome: stoplog.OutcomeConfirmed},
		{name: "no last event", format: UsageOpenAIChat, body: sse(chatDelta), want: stoplog.Usage{Output: 5, Known: true, Estimated: true}, outcome: stoplog.OutcomeUnknown, flags: FlagUnterminated},
		{name: "error in the stream", format: UsageOpenAIChat, body: sse(chatDelta, `{"error":{"message":"overloaded"}}`), want: stoplog.Usage{Output: 5, Known: true, Estimated: true}, outcome: stoplog.OutcomeUnknown, flags: FlagStreamError},
		{name: "chat document", format: UsageOpenAIChat, plain: true, body: `{"model":"m-1","choices":[{"message":{"content":"four words of text"}}],"usage":{"prompt_tokens":100,"completion_tokens":40,"prompt_tokens_details":{"cached_tokens":64}}}`, want: exact, outcome: stoplog.OutcomeConfirmed},
		{name: "chat document without usage", format: UsageOpenAIChat, plain: true, body: `{"choices":[{"message":{"content":"four words of text"}}]}`, want: stoplog.Usage{Output: 5, Known: true, Estimated: true}, outcome: stoplog.OutcomeConfirmed},
		{name: "usage: null", format: UsageOpenAIChat, plain: true, body: `{"choices":[{"message":{"content":"four words of text"}}],"usage":null}`, want: stoplog.Usage{Output: 5, Known: true, Estimated: true}, outcome: stoplog.OutcomeConfirmed},

		{name: "responses", format: UsageOpenAIResponses, body: sse(respDelta, fmt.Sprintf(respDone, "completed")), want: exact, outcome: stoplog.OutcomeConfirmed},
		{name: "responses incomplete", format: UsageOpenAIResponses, body: sse(respDelta, fmt.Sprintf(respDone, "incomplete")), want: exact, outcome: stoplog.OutcomeConfirmed},
		{name: "responses failed", format: UsageOpenAIResponses, body: sse(respDelta, `{"type":"response.failed","response":{"error":{}}}`), want: stoplog.Usage{Output: 5, Known: true, Estimated: true}, outcome: stoplog.OutcomeUnknown, flags: FlagStreamError},
		{name: "responses cut", format: UsageOpenAIResponses, body: sse(deltas(respDelta, 10)...), cut: true, want: stoplog.Usage{Output: 45, Known: true, Estimated: true}, outcome: stoplog.OutcomeUnknown, flags: FlagTruncated},
		{name: "responses document", format: UsageOpenAIResponses, plain: true, body: `{"model":"m","output":[],"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":64},"output_tokens":40}}`, want: exact, outcome: stoplog.OutcomeConfirmed},

		{name: "anthropic", format: UsageAnthropic, body: sse(claudeStart, claudeDelta, fmt.Sprintf(claudeEnd, 40), claudeStop), want: claude, outcome: stoplog.OutcomeConfirmed},
		{name: "anthropic: cumulative, never added", format: UsageAnthropic, body: sse(claudeStart, fmt.Sprintf(claudeEnd, 15), fmt.Sprintf(claudeEnd, 40), claudeStop), want: claude, outcome: stoplog.OutcomeConfirmed},
		// BerriAI/litellm#39893: the figure in message_start is a placeholder.
		{name: "anthropic cut", format: UsageAnthropic, body: sse(append([]string{claudeStart}, deltas(claudeDelta, 10)...)...), cut: true, want: stoplog.Usage{Input: 45, Cached: 30, Output: 45, Known: true, Estimated: true}, outcome: stoplog.OutcomeUnknown, flags: FlagTruncated},
		{name: "anthropic error event", format: UsageAnthropic, body: sse(claudeStart, `{"type":"error","error":{"type":"overloaded_error"}}`), want: stoplog.Usage{Input: 45, Cached: 30, Known: true, Estimated: true}, outcome: stoplog.OutcomeUnknown, flags: FlagStreamError},
		{name: "anthropic document", format: UsageAnthropic, plain: true, body: `{"type":"message","model":"claude","content":[{"type":"text","text":"x"}],"usage":{"input_tokens":10,"cache_read_input_tokens":30,"cache_creation_input_tokens":5,"output_tokens":40}}`, want: claude, outcome: stoplog.OutcomeConfirmed},

		{name: "gemini", format: UsageGemini, body: sse(fmt.Sprintf(geminiChunk, 5), fmt.Sprintf(geminiChunk, 12), geminiEnd), want: exact, outcome: stoplog.OutcomeConfirmed},
		// docker/docker-agent#2848: figures in a chunk that carries nothing else.
		{name: "gemini, figures alone", format: UsageGemini, body: sse(`{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}]}`, `{"usageMetadata":{"promptTokenCount":100,"cachedContentTokenCount":64,"candidatesTokenCount":25,"thoughtsTokenCount":15}}`), want: exact, outcome: stoplog.OutcomeConfirmed},
		{name: "gemini, figures shrink", format: UsageGemini, body: sse(geminiEnd, fmt.Sprintf(geminiChunk, 2)), want: exact, outcome: stoplog.OutcomeConfirmed},
		{name: "gemini cut", format: UsageGemini, body: sse(deltas(fmt.Sprintf(geminiChunk, 3), 10)...), cut: true, want: stoplog.Usage{Input: 100, Output: 45, Known: true, Estimated: true}, outcome: stoplog.OutcomeUnknown, flags: FlagTruncated},
		{name: "gemini array stream", format: UsageGemini, plain: true, body: "[" + fmt.Sprintf(geminiChunk, 5) + ",\r\n" + geminiEnd + "\n]", want: exact, outcome: stoplog.OutcomeConfirmed},

		{name: "embeddings", format: UsageEmbeddings, plain: true, body: `{"data":[{"embedding":[0.1,0.2]}],"model":"e","usage":{"prompt_tokens":100,"total_tokens":100}}`, want: stoplog.Usage{Input: 100, Known: true}, outcome: stoplog.OutcomeConfirmed},
		{name: "large embeddings", format: UsageEmbeddings, plain: true, body: `{"data":[{"embedding":[` + strings.Repeat("0.123456,", 1<<17) + `0]}],"usage":{"prompt_tokens":100}}`, want: stoplog.Usage{Known: true, Estimated: true}, outcome: stoplog.OutcomeConfirmed},
		{name: "no figures", format: UsageNone, plain: true, body: `{"text":"` + strings.Repeat("word ", 80) + `"}`, want: stoplog.Usage{Output: 100, Known: true, Estimated: true}, outcome: stoplog.OutcomeConfirmed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rd := modelReading(t, tc.format, !tc.plain || strings.HasPrefix(tc.body, "["))
			for _, step := range []int{1, 13, 1 << 20} {
				if step == 1 && len(tc.body) > 1<<16 {
					continue
				}
				typ := "text/event-stream; charset=utf-8"
				if tc.plain {
					typ = "application/json"
				}
				o := rd.Observe(200, headers("Content-Type: "+typ))
				for b := range slices.Chunk([]byte(tc.body), step) {
					o.Write(b)
				}
				res := o.End(End{Complete: !tc.cut && !tc.gone, Abandoned: tc.gone})
				want := tc.want
				switch want.Input {
				case 0:
					want.Input = rd.Effect.Model.InputTokens
				case -1:
					want.Input = 0
				}
				if res.Usage != want {
					t.Errorf("step %d: got %+v, want %+v", step, res.Usage, want)
				}
				if res.Outcome != tc.outcome || strings.Join(res.Flags, " ") != tc.flags {
					t.Errorf("step %d: got %v %v", step, res.Outcome, res.Flags)
				}
			}
		})
	}
}

func TestUsageWithoutSuccess(t *testing.T) {
	rd := modelReading(t, UsageOpenAIChat, false)
	asked := rd.Effect.Model.InputTokens
	for status, want := range map[int]stoplog.Usage{
		400: {Known: true}, 429: {Known: true},
		500: {Known: true, Input: asked, Estimated: true}, 503: {Known: true, Input: asked, Estimated: true},
	} {
		if got := rd.Observe(status, headers()).End(End{Complete: true}).Usage; got != want {
			t.Errorf("%d: got %+v, want %+v", status, got, want)
		}
	}
	if got := read(t).Observe(200, headers()).End(End{Complete: true}).Usage; got != (stoplog.Usage{}) {
		t.Errorf("a read used %+v", got)
	}
}

func TestCodings(t *testing.T) {
	rd := modelReading(t, UsageOpenAIChat, true)
	body := sse(chatDelta, chatFinish, chatUsage, "[DONE]")
	var zl, raw bytes.Buffer
	zw := zlib.NewWriter(&zl)
	_, _ = io.WriteString(zw, body)
	_ = zw.Close()
	fw, _ := flate.NewWriter(&raw, 5)
	_, _ = io.WriteString(fw, body)
	_ = fw.Close()
	for name, tc := range map[string]struct{ coding, body string }{
		"gzip": {"gzip", gzipped(body)}, "deflate": {"deflate", zl.String()}, "bare deflate": {"deflate", raw.String()},
	} {
		o := rd.Observe(200, headers("Content-Type: text/event-stream", "Content-Encoding: "+tc.coding))
		for b := range slices.Chunk([]byte(tc.body), 11) {
			o.Write(b)
		}
		res := o.End(End{Complete: true})
		if res.Usage.Output != 40 || res.Usage.Estimated || len(res.Flags) > 0 {
			t.Errorf("%s: %+v %v", name, res.Usage, res.Flags)
		}
	}
	// Unread is not free: about one token a compressed byte.
	o := rd.Observe(200, headers("Content-Type: text/event-stream", "Content-Encoding: br"))
	o.Write(make([]byte, 500))
	res := o.End(End{Complete: true})
	if res.Usage.Output != 500 || !res.Usage.Estimated || !res.Has(FlagUnread) {
		t.Errorf("br: %+v %v", res.Usage, res.Flags)
	}
	// Sound has no text to count and is not free either.
	o = rd.Observe(200, headers("Content-Type: audio/mpeg"))
	o.Write(make([]byte, 1500))
	res = o.End(End{Complete: true})
	if res.Usage.Output != 11 || !res.Usage.Estimated {
		t.Errorf("sound: %+v", res.Usage)
	}
	// A cut gzip stream still gives what came.
	o = rd.Observe(200, headers("Content-Type: text/event-stream", "Content-Encoding: gzip"))
	g := gzipped(sse(slices.Repeat([]string{chatDelta}, 2000)...))
	o.Write([]byte(g[:len(g)-20]))
	res = o.End(End{})
	if res.Usage.Output == 0 || !res.Usage.Estimated || !res.Has(FlagTruncated) {
		t.Errorf("cut gzip: %+v %v", res.Usage, res.Flags)
	}
}

func TestEventReader(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		want     []string
	}{
		{"line feeds", "data: a\n\ndata: b\n\n", []string{"a", "b"}},
		{"carriage returns", "data: a\r\rdata: b\r\r", []string{"a", "b"}},
		{"both", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"a", "b"}},
		{"several lines", "data: a\ndata: b\n\n", []string{"a\nb"}},
		{"no space", "data:a\n\n", []string{"a"}},
		{"other fields and comments", ": hi\nid: 1\nevent: x\ndata: a\nretry: 5\n\n: ping\n\n", []string{"a"}},
		{"byte order mark", "\xef\xbb\xbfdata: a\n\n", []string{"a"}},
		{"last event unended", "data: a\n\ndata: b", []string{"a", "b"}},
		{"empty data", "data\n\n", []string{""}},
		{"too long", "data: " + strings.Repeat("x", maxFrame+10) + "\n\ndata: b\n\n", []string{"skip 1048586", "b"}},
		{"too long over lines", strings.Repeat("data: "+strings.Repeat("x", 1<<19)+"\n", 3) + "id: 1\n\n", []string{"skip 1572866"}},
		{"long comment", ": " + strings.Repeat("x", maxFrame+10) + "\ndata: b\n\n", []string{"b"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, step := range []int{1, 3, 4096} {
				var got []string
				r := eventReader{
					emit: func(b []byte) { got = append(got, string(b)) },
					skip: func(n int) { got = append(got, fmt.Sprint("skip ", n)) },
				}
				for b := range slices.Chunk([]byte(tc.in), step) {
					r.write(b)
				}
				r.end()
				if !slices.Equal(got, tc.want) {
					t.Errorf("step %d: got %.60q, want %q", step, got, tc.want)
				}
			}
		})
	}
}

// FuzzEvents: the way the bytes are cut does not change the events, memory stays bounded, and text that came is counted.
func FuzzEvents(f *testing.F) {
	f.Add([]byte(sse(chatDelta, chatFinish, chatUsage, "[DONE]")), uint8(3))
	f.Add([]byte("data: a\r\rdata: b\r\n\r\n:x\n\n"), uint8(1))
	f.Add([]byte(sse(claudeStart, claudeDelta)), uint8(7))
	f.Add([]byte("["+geminiEnd+"]"), uint8(2))
	f.Fuzz(func(t *testing.T, b []byte, step uint8) {
		events := func(step int) string {
			var out strings.Builder
			r := eventReader{emit: func(b []byte) { fmt.Fprintf(&out, "%q ", b) }, skip: func(n int) { fmt.Fprint(&out, n) }}
			for c := range slices.Chunk(b, step) {
				r.write(c)
			}
			r.end()
			return out.String()
		}
		if whole, cut := events(len(b)+1), events(int(step)+1); whole != cut {
			t.Fatalf("whole %s, cut %s", whole, cut)
		}
		for _, format := range []UsageFormat{UsageNone, UsageOpenAIChat, UsageOpenAIResponses, UsageAnthropic, UsageGemini, UsageEmbeddings} {
			m := meter{format: format, stream: true}
			r := eventReader{emit: m.event, skip: m.skipped}
			r.write(b)
			r.end()
			e := elementReader{emit: m.event, skip: m.skipped}
			e.write(b)
			e.end()
			u := m.usage(10, false)
			if !u.Known || u.Output < 0 || u.Input < 0 || u.Cached > u.Input {
				t.Fatalf("format %d: %+v", format, u)
			}
		}
	})
}
