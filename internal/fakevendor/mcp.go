package fakevendor

import (
	"bytes"
	"encoding/json"
	"net/http"
	"sync"
)

// MCP protocol version that the fake speaks.
const mcpVersion = "2025-06-18"

func newMCP(v *vendor) *http.ServeMux {
	s := &mcp{v: v, sessions: map[string]bool{}}
	m := http.NewServeMux()
	handle(m, "POST /mcp", s.post)
	handle(m, "GET /mcp", s.listen)
	handle(m, "DELETE /mcp", s.end)
	return m
}

// mcp is a server over streamable HTTP. Its sessions end with a reset, as with a restart: a request of an old one is 404.
type mcp struct {
	v *vendor

	mu       sync.Mutex
	sessions map[string]bool
	notes    []string
}

type rpcRequest struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name            string `json:"name"`
		Arguments       obj    `json:"arguments"`
		ProtocolVersion string `json:"protocolVersion"`
		Meta            struct {
			ProgressToken any `json:"progressToken"`
		} `json:"_meta"`
	} `json:"params"`
}

func rpcError(x *exchange, status, code int, message string, id json.RawMessage) {
	if id == nil {
		id = json.RawMessage("null")
	}
	x.json(status, obj{"jsonrpc": "2.0", "id": id, "error": obj{"code": code, "message": message}})
}

// session checks the session header and answers itself where it does not fit.
func (s *mcp) session(x *exchange) bool {
	id := x.r.Header.Get("Mcp-Session-Id")
	s.mu.Lock()
	known := s.sessions[id]
	s.mu.Unlock()
	switch {
	case id == "":
		rpcError(x, http.StatusBadRequest, -32000, "Bad Request: Mcp-Session-Id header is required", nil)
	case !known:
		rpcError(x, http.StatusNotFound, -32001, "Session not found", nil)
	}
	return known
}

func (s *mcp) post(x *exchange) {
	if b := bytes.TrimLeft(x.body, " \t\r\n"); len(b) > 0 && b[0] == '[' {
		rpcError(x, http.StatusBadRequest, -32600, "Batches are not supported", nil)
		return
	}
	var q rpcRequest
	if !x.decode(&q) {
		rpcError(x, http.StatusBadRequest, -32700, "Parse error", nil)
		return
	}
	if q.Method == "initialize" {
		s.initialize(x, q)
		return
	}
	if !s.session(x) {
		return
	}
	if q.ID == nil { // a notification
		x.WriteHeader(http.StatusAccepted)
		return
	}
	switch q.Method {
	case "ping":
		rpcResult(x, q, obj{})
	case "tools/list":
		rpcResult(x, q, obj{"tools": mcpTools()})
	case "tools/call":
		s.call(x, q)
	default:
		rpcError(x, http.StatusOK, -32601, "Method not found", q.ID)
	}
}

func rpcResult(x *exchange, q rpcRequest, result obj) {
	x.json(http.StatusOK, obj{"jsonrpc": "2.0", "id": q.ID, "result": result})
}

func (s *mcp) initialize(x *exchange, q rpcRequest) {
	id := s.v.id("session-")
	s.mu.Lock()
	s.sessions[id] = true
	s.mu.Unlock()
	version := q.Params.ProtocolVersion
	if version == "" {
		version = mcpVersion
	}
	x.Header().Set("Mcp-Session-Id", id)
	rpcResult(x, q, obj{
		"protocolVersion": version, "capabilities": obj{"tools": obj{}}, "serverInfo": obj{"name": "fake", "version": "1"},
	})
}

func mcpTools() []obj {
	text := obj{"type": "object", "properties": obj{"text": obj{"type": "string"}}, "required": []string{"text"}}
	return []obj{
		{"name": "echo", "description": "Repeats the text", "inputSchema": text, "annotations": obj{"readOnlyHint": true}},
		{"name": "add_note", "description": "Stores the text", "inputSchema": text},
		{"name": "fail", "description": "Runs and fails", "inputSchema": obj{"type": "object"}},
		{"name": "progress", "description": "Answers as a stream, with progress", "inputSchema": obj{"type": "object"}},
	}
}

// call runs a tool. A tool that fails is a result with isError, not an error of the protocol.
func (s *mcp) call(x *exchange, q rpcRequest) {
	text, _ := q.Params.Arguments["text"].(string)
	result := func(t string, failed bool) obj {
		return obj{"content": []obj{{"type": "text", "text": t}}, "isError": failed}
	}
	switch q.Params.Name {
	case "echo":
		rpcResult(x, q, result("Echo: "+text, false))
	case "add_note":
		s.mu.Lock()
		s.notes = last(append(s.notes, text), keepItems)
		s.mu.Unlock()
		x.effect("tools/call add_note", s.v.id("note-"))
		rpcResult(x, q, result("noted", false))
	case "fail":
		x.effect("tools/call fail", s.v.id("failure-")) // it ran: the half that was done stays done
		rpcResult(x, q, result("the tool failed half-way", true))
	case "progress":
		st := x.sse()
		for i := range 3 {
			st.send("message", obj{"jsonrpc": "2.0", "method": "notifications/progress", "params": obj{
				"progressToken": q.Params.Meta.ProgressToken, "progress": i + 1, "total": 3,
			}})
		}
		st.send("message", obj{"jsonrpc": "2.0", "id": q.ID, "result": result("done", false)})
	default:
		rpcError(x, http.StatusOK, -32602, "Unknown tool: "+q.Params.Name, q.ID)
	}
}

// listen is the idle stream for messages of the server: open until the client leaves.
func (s *mcp) listen(x *exchange) {
	if !s.session(x) {
		return
	}
	x.sse()
	<-x.r.Context().Done()
}

func (s *mcp) end(x *exchange) {
	if !s.session(x) {
		return
	}
	s.mu.Lock()
	delete(s.sessions, x.r.Header.Get("Mcp-Session-Id"))
	s.mu.Unlock()
	x.WriteHeader(http.StatusOK)
}
