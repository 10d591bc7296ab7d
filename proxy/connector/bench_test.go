package connector

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stoplog/stoplog"
)

// chatBody is a chat completion request of about 1 KiB.
func chatBody() string {
	var b strings.Builder
	b.WriteString(`{"model":"gpt-4o-mini","max_tokens":512,"temperature":0.2,"stream":true,"messages":[`)
	b.WriteString(`{"role":"system","content":"You are a careful assistant that answers in one sentence."}`)
	for i := range 6 {
		fmt.Fprintf(&b, `,{"role":"user","content":"Question %d: what did the customer ask for in ticket 1234, and who answered? Please be brief."}`, i)
	}
	b.WriteString(`],"metadata":{"run":"a1b2","step":"3"}}`)
	return b.String()
}

func benchClassify(b *testing.B, p *Profile, r *Request) {
	b.ReportAllocs()
	b.SetBytes(int64(len(r.Body)))
	for b.Loop() {
		_, err := p.Classify(r)
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkClassifyJSON(b *testing.B) {
	benchClassify(b, compile(b, testSpec()), request("POST /chat", chatBody(), asJSON))
}

func BenchmarkClassifyMessage(b *testing.B) {
	body := `{"channel":"C0123456789","thread_ts":"1700000000.000100","text":"` + strings.Repeat("hello world ", 78) + `"}`
	benchClassify(b, compile(b, testSpec()), request("POST /messages", body, asJSON))
}

func BenchmarkClassifyForm(b *testing.B) {
	body := "amount=1999&currency=usd&customer=cus_123&items[0][price]=price_1&description=" + strings.Repeat("x", 900)
	benchClassify(b, compile(b, testSpec()), request("POST /charges", body, asForm))
}

func BenchmarkClassifyRead(b *testing.B) {
	benchClassify(b, compile(b, testSpec()), request("GET /repos/a/b/issues?per_page=100", ""))
}

func BenchmarkClassifyTool(b *testing.B) {
	body := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"write_file","arguments":{"path":"/a","content":"` + strings.Repeat("y", 800) + `"}}}`
	benchClassify(b, compile(b, mcpSpec()), request("POST /mcp", body, asJSON))
}

// BenchmarkRules shows that the work does not grow with the number of operations.
func BenchmarkRules(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := testSpec()
			for i := range n {
				s.Operations = append(s.Operations[:len(s.Operations):len(s.Operations)], Operation{
					Action: "x", Methods: []string{"POST"}, Path: fmt.Sprintf("/repos/{owner}/{repo}/kind%d/{id}", i), Class: stoplog.ClassWrite,
				})
			}
			benchClassify(b, compile(b, s), request(fmt.Sprintf("POST /repos/a/b/kind%d/1", n-1), `{"a":1}`, asJSON))
		})
	}
}

func BenchmarkTools(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := mcpSpec()
			for i := range n {
				s.Operations = append([]Operation{{
					Action: "x", Methods: []string{"POST"}, Path: "/{rest=**}", RPCMethods: []string{"tools/call"},
					Tools: []string{fmt.Sprintf("tool%d", i)}, Class: stoplog.ClassRead,
				}}, s.Operations...)
			}
			body := fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"tool%d","arguments":{}}}`, n/2)
			benchClassify(b, compile(b, s), request("POST /mcp", body, asJSON))
		})
	}
}

func BenchmarkObserveStream(b *testing.B) {
	p := compile(b, testSpec())
	rd, err := p.Classify(request("POST /chat", chatBody(), asJSON))
	if err != nil {
		b.Fatal(err)
	}
	frame := []byte(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"gpt-4o-mini","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}],"usage":null}` + "\n\n")
	h := http.Header{"Content-Type": {"text/event-stream"}}
	b.ReportAllocs()
	b.SetBytes(int64(len(frame)))
	o := rd.Observe(200, h)
	for b.Loop() {
		o.Write(frame)
	}
}

func BenchmarkObserveDocument(b *testing.B) {
	p := compile(b, testSpec())
	rd, err := p.Classify(request("POST /chat", chatBody(), asJSON))
	if err != nil {
		b.Fatal(err)
	}
	doc := []byte(`{"id":"chatcmpl-1","model":"gpt-4o-mini","choices":[{"index":0,"message":{"role":"assistant","content":"` + strings.Repeat("word ", 150) + `"},"finish_reason":"stop"}],"usage":{"prompt_tokens":210,"completion_tokens":150,"total_tokens":360}}`)
	h := http.Header{"Content-Type": {"application/json"}}
	b.ReportAllocs()
	for b.Loop() {
		o := rd.Observe(200, h)
		o.Write(doc)
		o.End(End{Complete: true})
	}
}
