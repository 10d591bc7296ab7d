package connector

import (
	"net/http"
	"strings"

	"github.com/stoplog/stoplog"
)

// media is what a Content-Type says.
type media struct {
	kind     Body // BodyJSON, BodyForm, BodyMultipart; BodyOpaque for any other type; BodyNone without the header
	boundary string
}

// requestMedia reads the request's Content-Type.
func requestMedia(h http.Header) (media, error) {
	values := h["Content-Type"]
	if len(values) == 0 {
		return media{}, nil
	}
	if len(values) > 1 {
		return media{}, stoplog.Refuse(stoplog.ReasonMalformedHeader, "Content-Type occurs twice")
	}
	switch values[0] { // what nearly all SDKs send
	case "application/json", "application/json; charset=utf-8", "application/json;charset=utf-8":
		return media{kind: BodyJSON}, nil
	case "application/x-www-form-urlencoded":
		return media{kind: BodyForm}, nil
	}
	typ, params, ok := parseParams(values[0])
	if !ok {
		return media{}, stoplog.Refuse(stoplog.ReasonMalformedHeader, "Content-Type is malformed")
	}
	m := media{kind: mediaKind(typ)}
	for _, p := range params {
		switch {
		case p.name == "boundary":
			m.boundary = p.value
		case p.name == "charset" && m.kind != BodyOpaque && !isUTF8(p.value):
			return media{}, stoplog.Refuse(stoplog.ReasonMalformedBody, "the body's charset is not UTF-8")
		}
	}
	return m, nil
}

func isUTF8(s string) bool {
	return strings.EqualFold(s, "utf-8") || strings.EqualFold(s, "utf8") || strings.EqualFold(s, "us-ascii")
}

func mediaKind(typ string) Body {
	typ = strings.ToLower(typ)
	switch {
	case typ == "application/json" || typ == "text/json" || strings.HasSuffix(typ, "+json"):
		return BodyJSON
	case typ == "application/x-www-form-urlencoded":
		return BodyForm
	case typ == "multipart/form-data":
		return BodyMultipart
	}
	return BodyOpaque
}

// answerMedia is the media type of an answer, lower case without parameters. Answers are read leniently: they decide
// nothing that the destination may do.
func answerMedia(h http.Header) string {
	t, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(t))
}
