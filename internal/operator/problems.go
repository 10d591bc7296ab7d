package operator

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"strings"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/internal/operator/reasons"
)

const page = `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>%s · Stoplog</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:42em;margin:3em auto;padding:0 1em}code{background:#eee;padding:.1em .3em}</style>
<h1>%s</h1>
<p><code>%s</code> · %s</p>
<h2>What happened</h2><p>%s</p>
<h2>What to do</h2><p>%s</p>
<p>%s</p>
</html>
`

// problemPage serves one reason: HTML to browsers, Markdown to everyone else.
func (s *server) problemPage(w http.ResponseWriter, r *http.Request, _ identity) error {
	e, ok := reasons.Lookup(stoplog.Reason(r.PathValue("reason")))
	if !ok {
		return refuse(http.StatusNotFound, stoplog.ReasonNotFound, "no such reason")
	}
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		w.Header().Set("Content-Type", "text/markdown; charset=utf-8")
		_, err := io.WriteString(w, e.Text())
		return ignoreGone(err)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	t := html.EscapeString
	_, err := fmt.Fprintf(w, page, t(e.Title), t(e.Title), t(string(e.Reason)), t(string(e.Disposition)), t(e.What), t(e.Do), t(e.Disposition.Meaning()))
	return ignoreGone(err)
}
