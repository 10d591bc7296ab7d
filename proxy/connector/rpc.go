package connector

import (
	"strings"

	"github.com/stoplog/stoplog"
)

// parseRPC reads the envelope of exactly one JSON-RPC 2.0 object. A batch is refused: each entry would need a decision of
// its own (stacklok/toolhive#5745, NVIDIA/OpenShell#2082).
func parseRPC(d *document) (*RPC, error) {
	root := d.root()
	switch {
	case root == nil:
		return nil, malformedRPC("is empty")
	case root.kind == '[':
		return nil, stoplog.Refuse(stoplog.ReasonBatchRefused, "a JSON-RPC batch is refused; send one object per request")
	case root.kind != '{':
		return nil, malformedRPC("is no object")
	case d.str("jsonrpc") != "2.0":
		return nil, malformedRPC(`does not say "jsonrpc":"2.0"`)
	}
	var r RPC
	if n := d.find("id"); n != nil && n.kind != 'n' {
		if n.kind != '"' && n.kind != '0' {
			return nil, malformedRPC("has an id that is neither text nor a number")
		}
		r.ID = string(d.raw[n.start:n.end])
	}
	m := d.find("method")
	if m == nil {
		if d.find("result") == nil && d.find("error") == nil {
			return nil, malformedRPC("has no method")
		}
		return &r, nil
	}
	r.Method = d.str("method")
	if r.Method == "" {
		return nil, malformedRPC("has a method that is not text")
	}
	if r.Method == "tools/call" {
		r.Tool = d.str("params", "name")
		if r.Tool == "" {
			return nil, malformedRPC("calls a tool without a name")
		}
	}
	return &r, nil
}

func malformedRPC(why string) error {
	return stoplog.Refuse(stoplog.ReasonMalformedBody, "the JSON-RPC body "+why)
}

// takesRPC reports whether the operation's patterns take the call.
func (o *operation) takesRPC(r *RPC) bool {
	if len(o.RPCMethods) == 0 {
		return true
	}
	if r == nil {
		return false
	}
	method := r.Method
	if method == "" {
		method = "$response"
	}
	return matchAny(o.RPCMethods, method) && (len(o.Tools) == 0 || r.Tool != "" && matchAny(o.Tools, r.Tool))
}

// matchAny reports whether s equals one of the patterns, or begins with one that ends in "*".
func matchAny(patterns []string, s string) bool {
	for _, p := range patterns {
		prefix, ok := strings.CutSuffix(p, "*")
		if s == p || ok && strings.HasPrefix(s, prefix) {
			return true
		}
	}
	return false
}
