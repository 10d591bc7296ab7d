package proxy

import (
	"net/http"
	"net/url"
	"strings"
)

// linkHeaders may point at a destination. Their URLs are mapped to the local URL, so that pagination and redirects stay
// inside; a link to anywhere else passes as it is and is flagged in the receipt.
var linkHeaders = []string{"Location", "Content-Location", "Link"}

// mapLinks rewrites the links of an answer.
func (x *exchange) mapLinks(h http.Header) {
	for _, names := range [...][]string{linkHeaders, x.dst.Profile.LinkHeaders()} {
		for _, n := range names {
			vs := h[http.CanonicalHeaderKey(n)]
			for i, v := range vs {
				if strings.EqualFold(n, "Link") {
					vs[i] = x.mapLinkHeader(v)
				} else {
					vs[i] = x.mapURL(v)
				}
			}
		}
	}
}

// mapLinkHeader maps the targets in a Link header: <target>; rel="next", <target>; … (RFC 8288).
func (x *exchange) mapLinkHeader(v string) string {
	var b strings.Builder
	for {
		i := strings.IndexByte(v, '<')
		if i < 0 {
			break
		}
		j := strings.IndexByte(v[i:], '>')
		if j < 0 {
			break
		}
		b.WriteString(v[:i+1])
		b.WriteString(x.mapURL(v[i+1 : i+j]))
		b.WriteByte('>')
		v = v[i+j+1:]
		// Parameters may hold '<' in quoted strings: copy up to the comma that ends this link.
		k := linkEnd(v)
		b.WriteString(v[:k])
		v = v[k:]
	}
	b.WriteString(v)
	return b.String()
}

func linkEnd(v string) int {
	quoted := false
	for i := 0; i < len(v); i++ {
		switch {
		case v[i] == '"':
			quoted = !quoted
		case quoted && v[i] == '\\':
			i++
		case !quoted && v[i] == ',':
			return i
		}
	}
	return len(v)
}

func (x *exchange) mapURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		x.flag("link_malformed")
		return s
	}
	if u.Host == "" {
		if strings.HasPrefix(s, "/") && !strings.HasPrefix(s, "//") {
			// Relative to the destination's root, which agents reach under a prefix.
			if rest, ok := under(s, x.dst.BasePath); ok {
				return x.localPath() + rest
			}
			x.flag("link_outside")
		}
		return s
	}
	d := x.rt.Hosts[strings.ToLower(u.Host)]
	if strings.EqualFold(u.Host, x.dst.Host) {
		d = x.dst // of several accounts at one service, the one that answered
	}
	if u.Scheme != "http" && u.Scheme != "https" || d == nil {
		x.flag("link_outside")
		return s
	}
	i := strings.Index(s, u.Host) + len(u.Host)
	rest, ok := under(s[i:], d.BasePath)
	if !ok {
		x.flag("link_outside")
		return s
	}
	if d == x.dst && x.l.Destination != "" {
		return "http://" + x.l.Address + rest
	}
	return strings.TrimSuffix(x.h.o.LocalURL(d.Name), "/") + rest
}

// localPath is the prefix of this exchange's destination at this listener.
func (x *exchange) localPath() string {
	if x.l.Destination != "" {
		return ""
	}
	return "/" + x.dst.Name
}

// under cuts a base path off a URL's rest ("/path?query#fragment").
func under(rest, base string) (string, bool) {
	if base == "" {
		return rest, true
	}
	r, ok := strings.CutPrefix(rest, base)
	if !ok || r != "" && !strings.ContainsRune("/?#", rune(r[0])) {
		return rest, false
	}
	return r, true
}
