package connector

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoplog/stoplog"
)

func call(id, tool, args string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, tool, args)
}

func TestRPC(t *testing.T) {
	p := compile(t, mcpSpec())
	for _, tc := range []struct {
		name, body, action, template string
		rpc                          RPC
	}{
		{"tool by exact name", call("1", "search", "{}"), "lookup", "tools/call search", RPC{ID: "1", Method: "tools/call", Tool: "search"}},
		{"tool by prefix", call(`"a"`, "git_push", "{}"), "git", "tools/call git_push", RPC{ID: `"a"`, Method: "tools/call", Tool: "git_push"}},
		{"any other tool", call("2", "searching", "{}"), "call", "tools/call searching", RPC{ID: "2", Method: "tools/call", Tool: "searching"}},
		{"the name's escapes do not matter", `{"jsonrpc":"2.0","id":3,"method":"tools\/call","params":{"name":"sear\u0063h"}}`, "lookup", "tools/call search", RPC{ID: "3", Method: "tools/call", Tool: "search"}},
		{"case variant is another tool", call("4", "Search", "{}"), "call", "tools/call Search", RPC{ID: "4", Method: "tools/call", Tool: "Search"}},
		{"notification", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "init", "notifications/initialized", RPC{Method: "notifications/initialized"}},
		{"answer of the client", `{"jsonrpc":"2.0","id":0,"result":{}}`, "init", "", RPC{ID: "0"}},
		{"unnamed method", `{"jsonrpc":"2.0","id":1,"method":"admin/reset"}`, Unnamed, "", RPC{ID: "1", Method: "admin/reset"}},
		{"null id", `{"jsonrpc":"2.0","id":null,"method":"initialize"}`, "init", "initialize", RPC{Method: "initialize"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rd, err := p.Classify(request("POST /mcp", tc.body, asJSON))
			if err != nil {
				t.Fatal(err)
			}
			if rd.Effect.Action != tc.action || rd.Template != tc.template {
				t.Errorf("got %s %q, want %s %q", rd.Effect.Action, rd.Template, tc.action, tc.template)
			}
			if diff := cmp.Diff(&tc.rpc, rd.RPC); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRPCRefusals(t *testing.T) {
	p := compile(t, mcpSpec())
	one := call("1", "search", "{}")
	// permission-protocol/deploy-gate#59, stacklok/toolhive#5745, NVIDIA/OpenShell#2082: a batch went past the tool policy.
	for _, tc := range []struct {
		name, body string
		want       stoplog.Reason
	}{
		{"batch", "[" + one + "]", stoplog.ReasonBatchRefused},
		{"batch behind white space", " \n[" + one + "]", stoplog.ReasonBatchRefused},
		{"empty batch", "[]", stoplog.ReasonBatchRefused},
		{"batch behind a byte order mark", "\xef\xbb\xbf[" + one + "]", stoplog.ReasonMalformedBody},
		{"UTF-16", "{\x00}\x00", stoplog.ReasonMalformedBody},
		{"two documents", one + one, stoplog.ReasonMalformedBody},
		{"method twice", `{"jsonrpc":"2.0","id":1,"method":"initialize","method":"tools/call"}`, stoplog.ReasonDuplicateKey},
		{"method twice behind an escape", `{"jsonrpc":"2.0","id":1,"method":"initialize","meth\u006fd":"tools/call"}`, stoplog.ReasonDuplicateKey},
		{"no version", `{"id":1,"method":"initialize"}`, stoplog.ReasonMalformedBody},
		{"method is a number", `{"jsonrpc":"2.0","id":1,"method":5}`, stoplog.ReasonMalformedBody},
		{"id is an object", `{"jsonrpc":"2.0","id":{},"method":"initialize"}`, stoplog.ReasonMalformedBody},
		{"tool without a name", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"Name":"x"}}`, stoplog.ReasonMalformedBody},
		{"neither call nor answer", `{"jsonrpc":"2.0","id":1}`, stoplog.ReasonMalformedBody},
		{"scalar", `5`, stoplog.ReasonMalformedBody},
		{"form", `a=b`, stoplog.ReasonMalformedBody},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, typ := range [][]string{{asJSON}, {"Content-Type: text/plain"}, nil} {
				_, err := p.Classify(request("POST /mcp", tc.body, typ...))
				if got := reason(err); got != tc.want {
					t.Errorf("%v: got %q (%v), want %q", typ, got, err, tc.want)
				}
			}
		})
	}
}

func TestKey(t *testing.T) {
	p := compile(t, mcpSpec())
	key := func(body string) string {
		rd, err := p.Classify(request("POST /mcp", body, asJSON))
		if err != nil {
			t.Fatal(err)
		}
		return rd.Key
	}
	base := key(call("1", "pay", `{"n":9007199254740992}`))
	if base == "" || base != key(call(`"other"`, "pay", `{"n":9007199254740992}`)) {
		t.Error("the call's id changed the key")
	}
	// cyberphone/json-canonicalization#20: numbers that floats merge stay two.
	for _, other := range []string{call("1", "pay", `{"n":9007199254740993}`), call("1", "pay2", `{"n":9007199254740992}`), `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay"}}`} {
		if key(other) == base {
			t.Errorf("one key for two effects: %s", other)
		}
	}
}

func TestRPCOutcomes(t *testing.T) {
	p := compile(t, mcpSpec())
	stream := func(events ...string) string {
		return "event: message\ndata: " + strings.Join(events, "\n\nevent: message\ndata: ") + "\n\n"
	}
	const progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`
	for _, tc := range []struct {
		name, body string
		stream     bool
		status     int
		cut        bool
		outcome    stoplog.Outcome
		health     stoplog.Health
		flag       string
	}{
		{"result", `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`, false, 200, false, stoplog.OutcomeConfirmed, stoplog.HealthGood, ""},
		// joshrotenberg/mcp-proxy#222: the tool ran and failed, which is no transport fault.
		{"tool error", `{"jsonrpc":"2.0","id":1,"result":{"isError":true,"content":[]}}`, false, 200, false, stoplog.OutcomeConfirmed, stoplog.HealthGood, FlagToolError},
		{"internal error", `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"x"}}`, false, 200, false, stoplog.OutcomeUnknown, stoplog.HealthBad, ""},
		{"server's own error", `{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"x"}}`, false, 200, false, stoplog.OutcomeUnknown, stoplog.HealthNeutral, ""},
		{"invalid params", `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"x"}}`, false, 200, false, stoplog.OutcomeRejected, stoplog.HealthNeutral, ""},
		{"parse error without id", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}`, false, 200, false, stoplog.OutcomeRejected, stoplog.HealthNeutral, ""},
		{"answer to another call", `{"jsonrpc":"2.0","id":2,"result":{}}`, false, 200, false, stoplog.OutcomeUnknown, stoplog.HealthBad, FlagNoAnswer},
		{"id of another type", `{"jsonrpc":"2.0","id":"1","result":{}}`, false, 200, false, stoplog.OutcomeUnknown, stoplog.HealthBad, FlagNoAnswer},
		{"HTML", `<html>`, false, 200, false, stoplog.OutcomeUnknown, stoplog.HealthBad, FlagNoAnswer},
		{"in a stream", stream(progress, `{"jsonrpc":"2.0","id":1,"result":{}}`), true, 200, false, stoplog.OutcomeConfirmed, stoplog.HealthGood, ""},
		{"question of the server with the same id", stream(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`), true, 200, false, stoplog.OutcomeUnknown, stoplog.HealthBad, FlagNoAnswer},
		{"stream cut before the answer", stream(progress), true, 200, true, stoplog.OutcomeUnknown, stoplog.HealthBad, FlagTruncated},
		{"stream cut after the answer", stream(`{"jsonrpc":"2.0","id":1,"result":{}}`), true, 200, true, stoplog.OutcomeConfirmed, stoplog.HealthGood, ""},
		// danny-avila/LibreChat#11868: the server forgot the session; the call was not executed.
		{"session lost", `{"error":"no session"}`, false, 404, false, stoplog.OutcomeRejected, stoplog.HealthNeutral, ""},
		{"server error", ``, false, 500, false, stoplog.OutcomeUnknown, stoplog.HealthBad, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rd, err := p.Classify(request("POST /mcp", call("1", "pay", "{}"), asJSON, "Mcp-Session-Id: S"))
			if err != nil {
				t.Fatal(err)
			}
			typ := "application/json"
			if tc.stream {
				typ = "text/event-stream"
			}
			o := rd.Observe(tc.status, map[string][]string{"Content-Type": {typ}})
			for b := range slices.Chunk([]byte(tc.body), 7) {
				o.Write(b)
			}
			res := o.End(End{Complete: !tc.cut})
			var flags []string
			if tc.flag != "" {
				flags = []string{tc.flag}
			}
			if res.Outcome != tc.outcome || res.Health != tc.health || !slices.Equal(res.Flags, flags) {
				t.Errorf("got %v %v %v", res.Outcome, res.Health, res.Flags)
			}
			if rd.Retryable(res, tc.status) {
				t.Error("a tool call would be repeated")
			}
		})
	}
}

func TestListen(t *testing.T) {
	p := compile(t, mcpSpec())
	rd, err := p.Classify(request("GET /mcp", "", "Accept: text/event-stream"))
	if err != nil || !rd.Listen {
		t.Fatalf("%+v %v", rd, err)
	}
	o := rd.Observe(200, map[string][]string{"Content-Type": {"text/event-stream"}})
	if res := o.End(End{}); res.Health != stoplog.HealthGood {
		t.Errorf("a listening stream that ended counts as %v", res.Health)
	}
}

func FuzzRPC(f *testing.F) {
	for _, s := range []string{call("1", "search", "{}"), "[]", `{"jsonrpc":"2.0","method":"notifications/x"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`} {
		f.Add([]byte(s))
	}
	p, err := Compile(mcpSpec())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		rd, err := p.Classify(request("POST /mcp", string(b), asJSON))
		switch {
		case err != nil:
			reasonIsTyped(t, err)
		case len(b) > 0 && rd.RPC == nil:
			t.Fatalf("a body without an envelope was accepted: %q", b)
		}
	})
}
