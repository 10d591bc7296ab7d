package fakevendor

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

func start(t *testing.T, vendors ...string) *Fleet {
	t.Helper()
	f, err := Start(t.Context(), Options{Vendors: vendors, Control: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// ask sends a request with every credential header that any of the fakes wants. header is "Name: value" lines.
func ask(t *testing.T, method, url, body string, header ...string) (*http.Response, string) {
	t.Helper()
	res, text, err := try(t, method, url, body, header...)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return res, text
}

func try(t *testing.T, method, url, body string, header ...string) (*http.Response, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer key")
	req.Header.Set("X-Api-Key", "key")
	req.Header.Set("X-Goog-Api-Key", "key")
	req.Header.Set("Anthropic-Version", "2023-06-01")
	req.Header.Set("Content-Type", "application/json")
	if !strings.HasPrefix(body, "{") && !strings.HasPrefix(body, "[") {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, h := range header {
		k, v, _ := strings.Cut(h, ": ")
		req.Header.Set(k, v)
	}
	// Own transport: a connection that a fault has cut must not be found in a pool.
	c := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	res, err := c.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res, string(b), err
}

// TestShapes: one request per operation. want is found in the answer in this order.
func TestShapes(t *testing.T) {
	f := start(t)
	const chat = `{"model":"m","messages":[{"role":"user","content":"hi there"}]`
	for _, c := range []struct {
		name, vendor, method, path, body string
		status                           int
		want                             []string
		effects                          int
	}{
		{
			"chat", "openai", "POST", "/v1/chat/completions", chat + `}`, 200,
			[]string{`"finish_reason":"stop"`, `"content":"You said: hi there"`, `"completion_tokens":4`, `"prompt_tokens":2`},
			0,
		},
		{"chat limit", "openai", "POST", "/v1/chat/completions", chat + `,"max_tokens":2}`, 200, []string{`"length"`, `"You said: "`}, 0},
		{
			"chat tool", "openai", "POST", "/v1/chat/completions", chat + `,"tools":[{"function":{"name":"look"}}]}`, 200,
			[]string{`"finish_reason":"tool_calls"`, `"arguments":"{\"input\":\"hi there\"}"`, `"name":"look"`},
			0,
		},
		{
			"chat stream", "openai", "POST", "/v1/chat/completions", chat + `,"stream":true}`, 200,
			[]string{`"role":"assistant"`, `"content":"You "`, `"finish_reason":"stop"`, `data: [DONE]`},
			0,
		},
		{
			"chat stream usage", "openai", "POST", "/v1/chat/completions", chat + `,"stream":true,"stream_options":{"include_usage":true}}`, 200,
			[]string{`"usage":null`, `"choices":[]`, `"completion_tokens":4`, `[DONE]`},
			0,
		},
		{
			"chat stream tool", "openai", "POST", "/v1/chat/completions", chat + `,"stream":true,"tools":[{"function":{"name":"look"}}]}`, 200,
			[]string{`"name":"look"`, `"arguments":"{\"input\":`, `"tool_calls"`},
			0,
		},
		{"chat without model", "openai", "POST", "/v1/chat/completions", `{}`, 400, []string{`"invalid_request_error"`}, 0},
		{
			"responses", "openai", "POST", "/v1/responses", `{"model":"m","input":"hi"}`, 200,
			[]string{`"type":"output_text"`, `"status":"completed"`, `"output_tokens":3`},
			0,
		},
		{
			"responses stream", "openai", "POST", "/v1/responses", `{"model":"m","input":[{"role":"user","content":"hi"}],"stream":true}`, 200,
			[]string{"event: response.created", "event: response.output_text.delta", "event: response.completed", `"output_tokens":3`},
			0,
		},
		{
			"embeddings", "openai", "POST", "/v1/embeddings", `{"model":"m","input":["a","b"],"encoding_format":"base64"}`, 200,
			[]string{`"embedding":"AACAPw`, `"index":1`, `"total_tokens":2`},
			0,
		},
		{"models", "openai", "GET", "/v1/models", "", 200, []string{`"gpt-5"`}, 0},

		{
			"messages", "anthropic", "POST", "/v1/messages", chat + `,"max_tokens":50}`, 200,
			[]string{`"text":"You said: hi there"`, `"stop_reason":"end_turn"`, `"input_tokens":2`, `"output_tokens":4`},
			0,
		},
		{
			"messages stream", "anthropic", "POST", "/v1/messages", chat + `,"max_tokens":50,"stream":true}`, 200,
			[]string{"event: message_start", `"output_tokens":1`, "event: content_block_delta", "event: message_delta", `"output_tokens":4`, "event: message_stop"},
			0,
		},
		{"messages without limit", "anthropic", "POST", "/v1/messages", chat + `}`, 400, []string{`"type":"error"`}, 0},
		{"count_tokens", "anthropic", "POST", "/v1/messages/count_tokens", chat + `}`, 200, []string{`{"input_tokens":2}`}, 0},

		{
			"generateContent", "gemini", "POST", "/v1beta/models/g:generateContent", `{"contents":[{"parts":[{"text":"hi"}]}]}`, 200,
			[]string{`"text":"You said: hi"`, `"candidatesTokenCount":3`, `"promptTokenCount":1`, `"thoughtsTokenCount":5`, `"totalTokenCount":9`},
			0,
		},
		{
			"streamGenerateContent", "gemini", "POST", "/v1beta/models/g:streamGenerateContent?alt=sse", `{"contents":[{"parts":[{"text":"hi"}]}]}`, 200,
			[]string{`"candidatesTokenCount":1`, `"candidatesTokenCount":3`},
			0,
		},

		{
			"post JSON", "slack", "POST", "/api/chat.postMessage", `{"channel":"C123","text":"hi","metadata":{"event_type":"op","event_payload":{"id":"7"}}}`, 200,
			[]string{`"channel":"C123"`, `"event_type":"op"`, `"ok":true`},
			1,
		},
		{"post form", "slack", "POST", "/api/chat.postMessage", "channel=general&text=hi", 200, []string{`"channel":"C0GENERAL"`, `"ok":true`}, 1},
		{"post to nowhere", "slack", "POST", "/api/chat.postMessage", `{"channel":"C404","text":"hi"}`, 200, []string{`{"error":"channel_not_found","ok":false}`}, 0},
		{"history", "slack", "GET", "/api/conversations.history?channel=C123&include_all_metadata=true", "", 200, []string{`"event_type":"op"`, `"text":"hi"`}, 0},
		{"upload", "slack", "POST", "/api/files.getUploadURLExternal", "filename=a.txt&length=3", 200, []string{`"upload_url":"` + f.URL("slack") + `/upload/v1/F`}, 0},
		{"unknown method", "slack", "POST", "/api/chat.nothing", "", 200, []string{`unknown_method`}, 0},

		{"issue", "github", "POST", "/repos/o/r/issues", `{"title":"t"}`, 201, []string{`"number":76`, `"title":"t"`}, 1},
		{"issue without title", "github", "POST", "/repos/o/r/issues", `{}`, 422, []string{"Validation Failed"}, 0},
		{"issue patch", "github", "PATCH", "/repos/o/r/issues/76", `{"state":"closed"}`, 200, []string{`"state":"closed"`}, 1},
		{"comment", "github", "POST", "/repos/o/r/issues/1/comments", `{"body":"b"}`, 201, []string{`"body":"b"`}, 1},
		{"pull", "github", "POST", "/repos/o/r/pulls", `{"title":"p","head":"a","base":"main"}`, 201, []string{`"number":77`}, 1},
		{"merge", "github", "PUT", "/repos/o/r/pulls/77/merge", `{}`, 200, []string{`"merged":true`}, 1},
		{"no repo", "github", "GET", "/repos/o/missing/issues", "", 404, []string{"Not Found"}, 0},

		{
			"charge", "stripe", "POST", "/v1/charges", "amount=500&currency=eur&metadata[op]=x1", 200,
			[]string{`"amount":500`, `"id":"ch_`, `"metadata":{"op":"x1"}`, `"status":"succeeded"`},
			1,
		},
		{"charge without currency", "stripe", "POST", "/v1/charges", "amount=5", 400, []string{"parameter_missing"}, 0},
		{"declined", "stripe", "POST", "/v1/charges", "amount=5&currency=eur&source=tok_chargeDeclined", 402, []string{"card_declined"}, 0},
		{"search", "stripe", "GET", "/v1/charges/search?query=metadata%5B'op'%5D%3A'x1'", "", 200, []string{`"data":[{`, `"amount":500`}, 0},
		{"search for nothing", "stripe", "GET", "/v1/charges/search?query=metadata%5B'op'%5D%3A'x2'", "", 200, []string{`"data":[]`}, 0},
		{"refund of nothing", "stripe", "POST", "/v1/refunds", "charge=ch_0", 400, []string{"resource_missing"}, 0},

		{"sms", "twilio", "POST", "/2010-04-01/Accounts/AC1/Messages.json", "To=%2B1&From=%2B2&Body=hi", 201, []string{`"sid":"SM`, `"queued"`}, 1},
		{"sms to nobody", "twilio", "POST", "/2010-04-01/Accounts/AC1/Messages.json", "From=%2B2&Body=hi", 400, []string{`21604`}, 0},
		{"sms list", "twilio", "GET", "/2010-04-01/Accounts/AC1/Messages.json?To=%2B1", "", 200, []string{`"body":"hi"`}, 0},

		{"mail", "sendgrid", "POST", "/v3/mail/send", `{"personalizations":[{"to":[{"email":"a@b.example"}]}],"from":{"email":"c@d.example"},"content":[{"value":"x"}]}`, 202, nil, 1},
		{"mail to nobody", "sendgrid", "POST", "/v3/mail/send", `{}`, 400, []string{"personalizations"}, 0},

		{"jira issue", "jira", "POST", "/rest/api/3/issue", `{"fields":{"project":{"key":"OPS"},"summary":"s"}}`, 201, []string{`"key":"OPS-1"`}, 1},
		{"jira comment", "jira", "POST", "/rest/api/3/issue/OPS-1/comment", `{"body":{"type":"doc"}}`, 201, []string{`"id"`}, 1},
		{"jira search", "jira", "POST", "/rest/api/3/search/jql", `{"jql":"project = OPS"}`, 200, []string{`"key":"OPS-1"`}, 0},

		{"item", "generic", "POST", "/items", `{"a":1}`, 201, []string{`"a":1`, `"id":"1"`}, 1},
		{"item put", "generic", "PUT", "/items/1", `{"b":2}`, 200, []string{`{"b":2,"id":"1"}`}, 1},
		{"item patch", "generic", "PATCH", "/items/1", `{"c":3}`, 200, []string{`{"b":2,"c":3,"id":"1"}`}, 1},
		{"item delete", "generic", "DELETE", "/items/1", "", 204, nil, 1},

		{"records", "playground", "GET", "/records", "", 200, []string{"Order 1001"}, 0},
		{"record", "playground", "POST", "/records", `{"title":"x"}`, 201, []string{`"title":"x"`}, 1},
		{"message", "playground", "POST", "/messages", `{"to":"ada","text":"hi"}`, 200, []string{`"delivered"`}, 1},
		{"ask", "playground", "POST", "/chat/completions", `{"messages":[{"role":"user","content":"hi"}]}`, 200, []string{"You said: hi"}, 0},

		{"unclean path", "generic", "GET", "//items", "", 404, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, seen := len(f.Effects(c.vendor)), len(f.Requests(c.vendor))
			res, body := ask(t, c.method, f.URL(c.vendor)+c.path, c.body)
			if res.StatusCode != c.status {
				t.Fatalf("status %d, want %d: %s", res.StatusCode, c.status, body)
			}
			rest := body
			for _, w := range c.want {
				_, after, ok := strings.Cut(rest, w)
				if !ok {
					t.Fatalf("no %s (in this order) in: %s", w, body)
				}
				rest = after
			}
			if got := len(f.Effects(c.vendor)) - before; got != c.effects {
				t.Errorf("%d effects, want %d", got, c.effects)
			}
			if got := len(f.Requests(c.vendor)) - seen; got != 1 {
				t.Errorf("%d requests seen, want 1", got)
			}
		})
	}
}

func TestCredentialIsAskedFor(t *testing.T) {
	f := start(t)
	for vendor, path := range map[string]string{
		"openai": "/v1/models", "anthropic": "/v1/messages", "gemini": "/v1beta/models/g:generateContent", "github": "/repos/o/r/issues",
		"slack": "/api/auth.test", "stripe": "/v1/charges", "twilio": "/2010-04-01/Accounts/A/Messages.json", "jira": "/rest/api/3/issue",
		"sendgrid": "/v3/mail/send",
	} {
		method := "POST"
		if vendor == "openai" {
			method = "GET"
		}
		res, body := ask(t, method, f.URL(vendor)+path, `{}`, "Authorization: ", "X-Api-Key: ", "X-Goog-Api-Key: ")
		if vendor == "slack" {
			if !strings.Contains(body, "not_authed") {
				t.Errorf("slack: %s", body)
			}
			continue
		}
		if res.StatusCode != 401 && res.StatusCode != 403 {
			t.Errorf("%s: status %d, want 401 or 403", vendor, res.StatusCode)
		}
	}
}

func TestRecordIsExact(t *testing.T) {
	f := start(t, "generic")
	body := "{ \"a\" : 1.0,\t\"é\":\"\\u0041\" }\n"
	ask(t, "POST", f.URL("generic")+"/items?q=%7e;x", body, "X-Thing: y")
	e := f.Effects("generic")
	r := f.Requests("generic")
	if len(e) != 1 || len(r) != 1 {
		t.Fatalf("%d effects, %d requests", len(e), len(r))
	}
	if string(e[0].Body) != body || string(r[0].Body) != body {
		t.Errorf("body %q, %q", e[0].Body, r[0].Body)
	}
	if r[0].Target != "/items?q=%7e;x" || e[0].Target != r[0].Target || r[0].Header.Get("X-Thing") != "y" || e[0].Request != r[0].ID {
		t.Errorf("request %+v", r[0])
	}
}

// TestPagination: three pages of the default size, and the links lead to another path at the fake's own address whatever the
// request claims about its host.
func TestPagination(t *testing.T) {
	f := start(t, "github")
	url, sum := f.URL("github")+"/repos/o/r/issues?state=all", 0
	for page := 1; url != ""; page++ {
		res, body := ask(t, "GET", url, "", "X-Forwarded-Host: evil.example", "X-Forwarded-Proto: https")
		var issues []obj
		if err := json.Unmarshal([]byte(body), &issues); err != nil {
			t.Fatal(err)
		}
		sum += len(issues)
		url = ""
		for l := range strings.SplitSeq(res.Header.Get("Link"), ", ") {
			if target, ok := strings.CutSuffix(l, `; rel="next"`); ok {
				url = strings.Trim(target, "<>")
				if !strings.HasPrefix(url, f.URL("github")+"/repositories/1/issues?") || !strings.Contains(url, "state=all") {
					t.Fatalf("next page at %s", url)
				}
			}
		}
		if page > 3 {
			t.Fatal("more than three pages")
		}
	}
	if sum != seeded || len(f.Requests("github")) != 3 {
		t.Errorf("%d issues in %d pages", sum, len(f.Requests("github")))
	}
}

func TestStripeIdempotency(t *testing.T) {
	f := start(t, "stripe")
	url := f.URL("stripe") + "/v1/charges"
	if err := f.AddFault(Fault{Vendor: "stripe", Kind: CutAfterEffect, Times: 1}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := try(t, "POST", url, "amount=5&currency=eur", "Idempotency-Key: k"); err == nil {
		t.Fatal("the reply was to be lost")
	}
	res, first := ask(t, "POST", url, "currency=eur&amount=5", "Idempotency-Key: k")
	if res.StatusCode != 200 || res.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("replay: %d %v", res.StatusCode, res.Header)
	}
	_, second := ask(t, "POST", url, "amount=5&currency=eur", "Idempotency-Key: k")
	if first != second || len(f.Effects("stripe")) != 1 {
		t.Errorf("%d charges; answers differ: %v", len(f.Effects("stripe")), first != second)
	}
	res, body := ask(t, "POST", url, "amount=6&currency=eur", "Idempotency-Key: k")
	if res.StatusCode != 400 || !strings.Contains(body, "idempotency_error") {
		t.Errorf("other parameters: %d %s", res.StatusCode, body)
	}
	// A request that failed validation stored nothing.
	ask(t, "POST", url, "amount=5", "Idempotency-Key: v")
	if res, _ := ask(t, "POST", url, "amount=5&currency=eur", "Idempotency-Key: v"); res.StatusCode != 200 {
		t.Errorf("after a validation error: %d", res.StatusCode)
	}
}

// TestFaults plays each kind once and then sees an unharmed answer.
func TestFaults(t *testing.T) {
	f := start(t, "generic", "slack")
	for _, c := range []struct {
		name    string
		fault   Fault
		status  int // 0 = the connection breaks
		want    string
		effects int
	}{
		{"status", Fault{Kind: Status, Status: 503, Headers: map[string]string{"Retry-After": "7"}, Body: "busy"}, 503, "busy", 0},
		{"rate limited", Fault{Kind: RateLimited, RetryAfter: "120, 60"}, 429, "scripted 429", 0},
		{"latency", Fault{Kind: Latency, DelayMS: 5}, 201, `"a":1`, 1},
		{"cut before", Fault{Kind: CutBeforeEffect}, 0, "", 0},
		{"cut after", Fault{Kind: CutAfterEffect}, 0, "", 1},
		{"status after", Fault{Kind: StatusAfterEffect}, 500, "scripted", 1},
		{"garbage", Fault{Kind: Garbage}, 200, "<html>", 0},
		{"redirect", Fault{Kind: Redirect, Location: "https://evil.example/x"}, 307, "", 0},
		{"early hints", Fault{Kind: EarlyHints}, 201, `"a":1`, 1},
		{"trailers", Fault{Kind: Trailers, Headers: map[string]string{"Grpc-Status": "14"}}, 201, `"a":1`, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			f.Reset()
			c.fault.Vendor, c.fault.Times, c.fault.Path = "generic", 1, "/it*"
			if err := f.AddFault(c.fault); err != nil {
				t.Fatal(err)
			}
			res, body, err := try(t, "POST", f.URL("generic")+"/items", `{"a":1}`)
			switch {
			case c.status == 0 && err == nil:
				t.Fatalf("answer %d, want a broken connection", res.StatusCode)
			case c.status == 0:
			case err != nil:
				t.Fatal(err)
			case res.StatusCode != c.status || !strings.Contains(body, c.want):
				t.Fatalf("%d %q", res.StatusCode, body)
			case c.fault.RetryAfter != "" && res.Header.Get("Retry-After") != c.fault.RetryAfter:
				t.Errorf("Retry-After %q", res.Header.Get("Retry-After"))
			case c.fault.Location != "" && res.Header.Get("Location") != c.fault.Location:
				t.Errorf("Location %q", res.Header.Get("Location"))
			case c.fault.Kind == Trailers && (res.Trailer.Get("Grpc-Status") != "14" || res.Header.Get("Trailer") != ""):
				t.Errorf("trailers %v", res.Trailer)
			}
			if n := len(f.Effects("generic")); n != c.effects {
				t.Errorf("%d effects, want %d", n, c.effects)
			}
			if r := f.Requests("generic"); len(r) != 1 || r[0].Fault != string(c.fault.Kind) {
				t.Errorf("requests %+v", r)
			}
			if res, _ := ask(t, "POST", f.URL("generic")+"/items", `{"a":1}`); res.StatusCode != 201 {
				t.Errorf("after the fault: %d", res.StatusCode)
			}
		})
	}
}

func TestFaultOrderSkipAndMethod(t *testing.T) {
	f := start(t, "generic")
	for _, fault := range []Fault{
		{Vendor: "generic", Kind: Status, Status: 501, Method: "DELETE"},
		{Vendor: "generic", Kind: Status, Status: 502, Skip: 1, Times: 2, Path: "/items"},
	} {
		if err := f.AddFault(fault); err != nil {
			t.Fatal(err)
		}
	}
	var got []int
	for range 4 {
		res, _ := ask(t, "GET", f.URL("generic")+"/items", "")
		got = append(got, res.StatusCode)
	}
	if want := []int{200, 502, 502, 200}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if err := f.AddFault(Fault{Vendor: "generic", Kind: "explode"}); err == nil {
		t.Error("unknown kind was taken")
	}
	if err := f.AddFault(Fault{Vendor: "nobody", Kind: Hang}); err == nil {
		t.Error("unknown vendor was taken")
	}
}

func TestCutMidBodyAndStream(t *testing.T) {
	f := start(t, "generic", "openai")
	if err := f.AddFault(Fault{Vendor: "generic", Kind: CutMidBody, Times: 1}); err != nil {
		t.Fatal(err)
	}
	res, body, err := try(t, "POST", f.URL("generic")+"/items", `{"a":1}`)
	if err == nil || res == nil || res.ContentLength != 500 || len(body) != 100 {
		t.Errorf("announced %v, got %d bytes, error %v", res, len(body), err)
	}
	if err := f.AddFault(Fault{Vendor: "openai", Kind: CutMidStream, Frames: 3, Times: 1}); err != nil {
		t.Fatal(err)
	}
	_, body, err = try(t, "POST", f.URL("openai")+"/v1/chat/completions", `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`)
	if err == nil || strings.Count(body, "data: ") != 3 {
		t.Errorf("%d frames, error %v", strings.Count(body, "data: "), err)
	}
}

// TestGzip: the default transport asks for it and undoes it; Uncompressed tells that it was there.
func TestGzip(t *testing.T) {
	f := start(t, "openai", "generic")
	for _, v := range f.Vendors() {
		if err := f.AddFault(Fault{Vendor: v, Kind: Gzip}); err != nil {
			t.Fatal(err)
		}
	}
	for _, stream := range []string{"", `,"stream":true`} {
		res, body := ask(t, "POST", f.URL("openai")+"/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hi"}]`+stream+`}`)
		if !res.Uncompressed || !strings.Contains(body, "said") {
			t.Errorf("uncompressed %v: %s", res.Uncompressed, body)
		}
	}
	ask(t, "POST", f.URL("generic")+"/items", `{"a":1}`)
	if res, body := ask(t, "DELETE", f.URL("generic")+"/items/1", ""); res.StatusCode != 204 || body != "" {
		t.Errorf("%d %q", res.StatusCode, body)
	}
	if res, _ := ask(t, "GET", f.URL("generic")+"/items", "", "Accept-Encoding: identity"); res.Header.Get("Content-Encoding") != "" {
		t.Error("compressed for who did not ask")
	}
}

func TestUsageMissingAndLongAnswer(t *testing.T) {
	f := start(t, "openai", "anthropic", "gemini")
	for vendor, c := range map[string]struct{ path, body, usage string }{
		"openai":    {"/v1/chat/completions", `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`, `"completion_tokens"`},
		"anthropic": {"/v1/messages", `{"model":"m","stream":true,"max_tokens":5000,"messages":[{"role":"user","content":"hi"}]}`, `"message_delta","usage":`},
		"gemini":    {"/v1beta/models/g:streamGenerateContent?alt=sse", `{"contents":[{"parts":[{"text":"hi"}]}]}`, `"usageMetadata"`},
	} {
		for _, fault := range []Fault{{Kind: MissingUsage}, {Kind: LongAnswer, Tokens: 400}} {
			fault.Vendor, fault.Times = vendor, 1
			if err := f.AddFault(fault); err != nil {
				t.Fatal(err)
			}
		}
		if _, body := ask(t, "POST", f.URL(vendor)+c.path, c.body); strings.Contains(body, c.usage) {
			t.Errorf("%s: usage came all the same: %s", vendor, body)
		}
		_, body := ask(t, "POST", f.URL(vendor)+c.path, c.body)
		if strings.Count(body, "word ") != 400 || !strings.Contains(body, c.usage) || !strings.Contains(body, "400") {
			t.Errorf("%s: no answer of 400 tokens with its usage: %.300s", vendor, body)
		}
	}
}

// TestHang: the request is on record, nothing happens, and Close does not wait for it.
func TestHang(t *testing.T) {
	f := start(t, "generic")
	if err := f.AddFault(Fault{Vendor: "generic", Kind: HangAfterEffect, Times: 1}); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, _, err := try(t, "POST", f.URL("generic")+"/items", `{"a":1}`)
		done <- err
	}()
	for len(f.Effects("generic")) == 0 {
		time.Sleep(time.Millisecond)
	}
	select {
	case err := <-done:
		t.Fatalf("an answer came: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	f.Close()
	if err := <-done; err == nil {
		t.Error("no error after Close")
	}
}

// TestStreamIsFramed: a frame arrives while the next one is still to come.
func TestStreamIsFramed(t *testing.T) {
	f := start(t, "openai")
	if err := f.AddFault(Fault{Vendor: "openai", Kind: SlowStream, IntervalMS: 30_000, Times: 1}); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), "POST", f.URL("openai")+"/v1/chat/completions",
		strings.NewReader(`{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer k")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(res.Body).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "data: ") {
		t.Fatalf("%q %v", line, err)
	}
	res.Body.Close()
	for !f.Requests("openai")[0].Gone {
		time.Sleep(time.Millisecond)
	}
}

func TestMCP(t *testing.T) {
	f := start(t, "mcp")
	url := f.URL("mcp") + "/mcp"
	rpc := func(id, method, params string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":` + params + `}`
	}
	res, _ := ask(t, "POST", url, rpc("1", "initialize", `{"protocolVersion":"2025-06-18"}`))
	session := "Mcp-Session-Id: " + res.Header.Get("Mcp-Session-Id")
	for _, c := range []struct {
		name, body, header string
		status             int
		want               string
	}{
		{"list", rpc("2", "tools/list", `{}`), session, 200, `"add_note"`},
		{"echo", rpc("3", "tools/call", `{"name":"echo","arguments":{"text":"x"}}`), session, 200, `Echo: x`},
		{"effect", rpc("4", "tools/call", `{"name":"add_note","arguments":{"text":"x"}}`), session, 200, `"isError":false`},
		{"tool error", rpc("5", "tools/call", `{"name":"fail","arguments":{}}`), session, 200, `"isError":true`},
		{"stream", rpc("6", "tools/call", `{"name":"progress","arguments":{}}`), session, 200, `notifications/progress`},
		{"notification", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, session, 202, ``},
		{"no session", rpc("7", "tools/list", `{}`), "Mcp-Session-Id: ", 400, `-32000`},
		{"other session", rpc("8", "tools/list", `{}`), "Mcp-Session-Id: x", 404, `-32001`},
		{"batch", "[" + rpc("9", "tools/list", `{}`) + "]", session, 400, `-32600`},
	} {
		res, body := ask(t, "POST", url, c.body, c.header)
		if res.StatusCode != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %s", c.name, res.StatusCode, body)
		}
	}
	if n := len(f.Effects("mcp")); n != 2 {
		t.Errorf("%d effects, want 2", n)
	}
	f.Reset()
	if res, _ := ask(t, "POST", url, rpc("10", "ping", `{}`), session); res.StatusCode != 404 {
		t.Errorf("old session after reset: %d", res.StatusCode)
	}
}

func TestControl(t *testing.T) {
	f := start(t, "generic")
	c := f.ControlURL()
	if res, body := ask(t, "POST", c+"/faults", `[{"vendor":"generic","kind":"status","status":418,"times":1}]`); res.StatusCode != 204 {
		t.Fatal(body)
	}
	if res, _ := ask(t, "GET", f.URL("generic")+"/items", ""); res.StatusCode != 418 {
		t.Errorf("fault was not played: %d", res.StatusCode)
	}
	ask(t, "POST", f.URL("generic")+"/items", `{"a":1}`)
	_, body := ask(t, "GET", c+"/effects?vendor=generic", "")
	var effects []Effect
	if err := json.Unmarshal([]byte(body), &effects); err != nil || len(effects) != 1 || !bytes.Equal(effects[0].Body, []byte(`{"a":1}`)) {
		t.Errorf("effects %s, %v", body, err)
	}
	for _, bad := range []string{`{`, `{"vendor":"x","kind":"hang"}`, `{"vendor":"generic","kind":"y"}`} {
		if res, _ := ask(t, "POST", c+"/faults", bad); res.StatusCode != 400 {
			t.Errorf("%s: %d", bad, res.StatusCode)
		}
	}
	if res, _ := ask(t, "GET", c+"/requests?vendor=x", ""); res.StatusCode != 404 {
		t.Errorf("unknown vendor: %d", res.StatusCode)
	}
	ask(t, "POST", c+"/reset", "")
	if len(f.Requests("generic")) != 0 {
		t.Error("requests outlived the reset")
	}
}
