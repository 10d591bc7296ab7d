package connector

import (
	"net/http"

	"github.com/stoplog/stoplog"
)

// Request is what a profile reads. It keeps nothing of it after Classify returned.
type Request struct {
	Method   string
	Path     string // canonical escaped path, without the destination's prefix and without the query
	RawQuery string // without "?"
	Header   http.Header
	Body     []byte // as received, still coded
}

// Reading is what a request would do, and what its answer will be measured by. It is immutable after Classify.
type Reading struct {
	// Effect has no Actor, Destination and Digest yet.
	Effect stoplog.Effect
	// Template names the operation for the receipt without the request's own data: the path template, or the JSON-RPC
	// method and tool. Empty for an unnamed operation.
	Template string
	// RPC is set when the body is one JSON-RPC object.
	RPC *RPC
	// Key is equal for re-sends of a keyless effect that differ only in transient fields. Empty = compare all bytes.
	Key string
	// Body is how the body was read. BodyOpaque means not inspected, which filters must not take for clean.
	Body Body
	// Listen marks a stream that stays open and idle: no deadline, own ceiling.
	Listen bool

	profile *Profile
	op      *operation
}

// RPC is what a JSON-RPC answer of ours needs.
type RPC struct {
	ID     string // as written, quotes included; "" for a notification
	Method string // "" for an answer of the client to the server
	Tool   string // params.name of tools/call
}

// Notification reports whether no answer is expected.
func (r *RPC) Notification() bool { return r.ID == "" || r.Method == "" }

// BreakerClass names the operations that share a breaker beside the destination's, so that what fails for one model or
// operation does not stop the others (Portkey-AI/gateway#1289).
func (rd *Reading) BreakerClass() string {
	switch {
	case rd.op.BreakerClass != "":
		return rd.op.BreakerClass
	case rd.Effect.Class == stoplog.ClassModel:
		return "model/" + clip(rd.Effect.Model.Name, 64)
	}
	return rd.Effect.Action
}

// clip cuts a name from outside to at most n bytes of printable ASCII.
func clip(s string, n int) string {
	b := make([]byte, 0, min(len(s), n))
	for i := 0; i < len(s) && len(b) < n; i++ {
		c := s[i]
		if c <= ' ' || c > '~' {
			c = '_'
		}
		b = append(b, c)
	}
	return string(b)
}
