package connector

import (
	"slices"
	"strings"
	"testing"
)

func TestTemplates(t *testing.T) {
	templates := []string{
		"/api/chat.postMessage", "/repos/{owner}/{repo}/issues", "/repos/{owner}/{repo}/{kind}", "/v1/models/{model}:embed",
		"/v1/models/{model}", "/files/{path=**}", "/", "/a/{x}.json", "/{rest=**}",
	}
	var ix index
	for i, s := range templates {
		seg, err := parseTemplate(s)
		if err != nil {
			t.Fatal(err)
		}
		ix.add(seg, int32(i), nil)
	}
	first := func(path string) string {
		seg, ok := splitPath(path, nil)
		if !ok {
			return "malformed"
		}
		var ops []int32
		for _, l := range ix.find(seg, nil) {
			ops = append(ops, l.ops...)
		}
		slices.Sort(ops)
		if len(ops) == 0 {
			return ""
		}
		return templates[ops[0]]
	}
	for path, want := range map[string]string{
		"/api/chat.postMessage":        "/api/chat.postMessage",
		"/api/chat%2EpostMessage":      "/api/chat.postMessage",
		"/api/Chat.postMessage":        "/{rest=**}",
		"/api/chat.postMessage/":       "/{rest=**}",
		"/repos/a/b/issues":            "/repos/{owner}/{repo}/issues",
		"/repos/a/b/pulls":             "/repos/{owner}/{repo}/{kind}",
		"/repos/a%2Fb/issues":          "/{rest=**}", // an encoded slash never splits
		"/repos//b/issues":             "/{rest=**}",
		"/v1/models/m:embed":           "/v1/models/{model}:embed",
		"/v1/models/m%3Aembed":         "/v1/models/{model}:embed", // one reading for two spellings
		"/v1/models/:embed":            "/v1/models/{model}",
		"/v1/models/m":                 "/v1/models/{model}",
		"/files":                       "/files/{path=**}",
		"/files/a/b/c":                 "/files/{path=**}",
		"/":                            "/",
		"":                             "/",
		"/a/b.json":                    "/a/{x}.json",
		"/a/.json":                     "/{rest=**}",
		"/%zz":                         "malformed",
		"/%ff":                         "malformed",
		"/" + strings.Repeat("x/", 40): "/{rest=**}",
		"/api/chat.postMessage%00":     "/{rest=**}",
		"/api%2Fchat.postMessage":      "/{rest=**}",
	} {
		if got := first(path); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	for _, bad := range []string{"x", "/{}", "/{A}", "/{a}{b}", "/{a=**}/b", "/x{a=**}", "/{a}/{a}", "/a*", "/%41", "/{a", "/a}", strings.Repeat("/a", 33)} {
		if _, err := parseTemplate(bad); err == nil {
			t.Errorf("template %q was accepted", bad)
		}
	}
}

// FuzzPath: whatever the path, the index and the chosen operation's own template agree, and nothing panics.
func FuzzPath(f *testing.F) {
	for _, s := range []string{"/", "/repos/a/b/issues/1/comments", "/models/x%3Agenerate", "/files/a/../b", "//", "/%2e%2e", "/a?b"} {
		f.Add(s)
	}
	p, err := Compile(testSpec())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, path string) {
		rd, err := p.Classify(&Request{Method: "POST", Path: path})
		if err != nil {
			reasonIsTyped(t, err)
			return
		}
		seg, _ := splitPath(path, nil)
		for i := range p.ops {
			o := &p.ops[i]
			if slices.Contains(o.Methods, "POST") && len(o.when) == 0 && naive(o.tmpl, seg) {
				if rd.Effect.Action != o.Action {
					t.Fatalf("%q: got %s, the first template that fits is %s", path, rd.Effect.Action, o.Path)
				}
				return
			}
		}
		if !rd.Effect.Unnamed {
			t.Fatalf("%q: got %s, but no template fits", path, rd.Effect.Action)
		}
	})
}

// naive matches segment by segment.
func naive(tmpl []segment, path []string) bool {
	for i := range tmpl {
		if tmpl[i].tail {
			return true
		}
		if i >= len(path) {
			return false
		}
		if _, ok := tmpl[i].match(path[i]); !ok {
			return false
		}
	}
	return len(tmpl) == len(path)
}
