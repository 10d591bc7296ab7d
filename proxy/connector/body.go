package connector

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/stoplog/stoplog"
)

const (
	maxDecoded   = 64 << 20 // bytes of a decoded request body
	maxRatio     = 100      // decoded to coded, beyond the first MiB
	ratioFreeFor = 1 << 20
)

// inspectable is the request body without its content coding. The coded bytes are what is forwarded. A coding that is not
// undone here is refused: the label of a coding must never hide a body (corazawaf/coraza#976).
func inspectable(h http.Header, body []byte) ([]byte, error) {
	values := h["Content-Encoding"]
	if len(values) == 0 {
		return body, nil
	}
	coding := strings.ToLower(strings.TrimSpace(strings.Join(values, ",")))
	switch coding {
	case "", "identity":
		return body, nil
	case "gzip", "x-gzip":
		if len(body) == 0 {
			return nil, nil
		}
		return gunzip(body)
	}
	return nil, stoplog.Refuse(stoplog.ReasonUnsupportedCoding, "the request body's Content-Encoding is not read here; send it uncoded or as gzip")
}

func gunzip(b []byte) ([]byte, error) {
	src := bytes.NewReader(b)
	zr, err := gzip.NewReader(src)
	if err != nil {
		return nil, notGzip(err)
	}
	zr.Multistream(false) // a second member would be seen by some servers only
	limit := min(maxDecoded, max(ratioFreeFor, maxRatio*len(b)))
	out, err := io.ReadAll(io.LimitReader(zr, int64(limit)+1))
	if err != nil {
		return nil, notGzip(err)
	}
	if len(out) > limit {
		return nil, stoplog.Refuse(stoplog.ReasonBodyTooLarge, "the gzip body grows beyond what is inspected")
	}
	if src.Len() > 0 {
		return nil, notGzip(fmt.Errorf("%d bytes follow the first member", src.Len()))
	}
	return out, nil
}

func notGzip(err error) error {
	e := stoplog.Refuse(stoplog.ReasonUnsupportedCoding, "the request body is not one whole gzip stream, as its Content-Encoding says")
	e.Err = err
	return e
}

// chooseBody says how to read a body: by what the operation declares and by what the Content-Type claims. reads says that
// an operation's conditions or sources need the body; then a form that was not declared is refused instead of passing unread.
func chooseBody(accepted []Body, m media, reads bool) (Body, error) {
	has := func(b Body) bool { return slices.Contains(accepted, b) }
	json := BodyJSON
	if has(BodyJSONRPC) {
		json = BodyJSONRPC
	}
	claim := m.kind
	if claim == BodyJSON && json == BodyJSONRPC {
		claim = BodyJSONRPC
	}
	single := BodyNone
	if len(accepted) == 1 {
		single = accepted[0]
	}
	switch {
	case has(claim) && claim != BodyNone:
		return claim, nil
	case has(BodyOpaque):
		return BodyOpaque, nil
	case single == json && m.kind == BodyForm:
		// curl -d labels everything a form, and vendors that take JSON only read it as JSON all the same.
		return readOr(reads, json), nil
	case m.kind == BodyNone || m.kind == BodyOpaque:
		if single != BodyNone {
			return readOr(reads, single), nil
		}
		if !reads {
			return BodyOpaque, nil
		}
		return 0, stoplog.Refuse(stoplog.ReasonMalformedBody, "the body's Content-Type does not say how to read it; this operation takes "+names(accepted))
	case reads:
		return 0, stoplog.Refuse(stoplog.ReasonMalformedBody, "this operation takes "+names(accepted)+", not "+m.kind.String())
	case m.kind == BodyForm:
		return BodyOpaque, nil
	default:
		return m.kind, nil // what claims to be JSON or multipart must be it, read or not
	}
}

func readOr(reads bool, b Body) Body {
	if reads {
		return b
	}
	return BodyOpaque
}

func names(list []Body) string {
	var out []string
	for _, b := range list {
		out = append(out, b.String())
	}
	return strings.Join(out, " or ")
}
