package connector

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stoplog/stoplog"
)

func TestParseJSON(t *testing.T) {
	deep := strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth)
	for _, tc := range []struct {
		name, in string
		want     stoplog.Reason // "" = accepted
	}{
		{"object", `{"a":1,"b":[true,null,"x"]}`, ""},
		{"scalar", `"x"`, ""},
		{"white space around", " \r\n\t{} \n", ""},
		{"number keeps its text", `{"n":9007199254740993}`, ""}, // cyberphone/json-canonicalization#20
		{"case variants are two names", `{"channel":1,"Channel":2}`, ""},
		{"as deep as allowed", deep, ""},
		{"duplicate name", `{"a":1,"a":2}`, stoplog.ReasonDuplicateKey}, // opena2a-org/secretless-ai#140
		{"duplicate name behind an escape", `{"channel":1,"chann\u0065l":2}`, stoplog.ReasonDuplicateKey},
		{"duplicate name deep inside", `{"a":[{"b":1,"b":1}]}`, stoplog.ReasonDuplicateKey},
		{"invalid UTF-8", "{\"a\":\"\xff\"}", stoplog.ReasonMalformedBody}, // agentrust-io/trace-spec#74
		{"invalid UTF-8 in a name", "{\"\xfe\":1}", stoplog.ReasonMalformedBody},
		{"lone surrogate", `{"a":"\ud800"}`, stoplog.ReasonMalformedBody},
		{"byte order mark", "\xef\xbb\xbf{}", stoplog.ReasonMalformedBody},
		{"UTF-16", "{\x00}\x00", stoplog.ReasonMalformedBody},
		{"second document", `{} {}`, stoplog.ReasonMalformedBody},
		{"trailing text", `{}x`, stoplog.ReasonMalformedBody},
		{"cut", `{"a":`, stoplog.ReasonMalformedBody},
		{"empty", ``, stoplog.ReasonMalformedBody},
		{"comment", `{}//`, stoplog.ReasonMalformedBody},
		{"single quotes", `{'a':1}`, stoplog.ReasonMalformedBody},
		{"trailing comma", `{"a":1,}`, stoplog.ReasonMalformedBody},
		{"NaN", `{"a":NaN}`, stoplog.ReasonMalformedBody},
		{"leading zero", `{"a":01}`, stoplog.ReasonMalformedBody},
		{"too deep", "[" + deep + "]", stoplog.ReasonMalformedBody},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := []byte(tc.in)
			r, err := parseJSON(in)
			if err == nil {
				r.release()
			}
			if got := reason(err); got != tc.want {
				t.Errorf("got %q (%v), want %q", got, err, tc.want)
			}
			if string(in) != tc.in {
				t.Error("the parse changed the bytes")
			}
		})
	}
}

// reason is the reason of a refusal, or "" without one.
func reason(err error) stoplog.Reason {
	if err == nil {
		return ""
	}
	return stoplog.ReasonOf(err)
}

func TestPointer(t *testing.T) {
	const doc = `{"a":{"b":[{"c":1},{"c":"two"},{"d":3}]},"x/y":{"~":true},"0":"zero","l":[10,20]}`
	r, err := parseJSON([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	defer r.release()
	for ptr, want := range map[string]string{
		"/a/b/*/c": "1 two", "/a/b/0/c": "1", "/a/b/2/c": "", "/x~1y/~0": "true", "/0": "zero", "/l/1": "20", "/l/01": "",
		"/l/*": "10 20", "/*/b/1/c": "two", "/A/b/0/c": "", "/a/b/9": "", "/l/-": "",
	} {
		p, err := parsePointer(ptr)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		p.each(&r.doc, func(i int32) bool {
			got = append(got, r.doc.text(&r.doc.nodes[i]))
			return true
		})
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: got %q, want %q", ptr, s, want)
		}
	}
	for _, bad := range []string{"", "a", "/~", "/~2"} {
		if _, err := parsePointer(bad); err == nil {
			t.Errorf("pointer %q was accepted", bad)
		}
	}
}

func TestPrefix(t *testing.T) {
	for in, want := range map[string]string{
		`{"ok":true,"messages":[{"text":"cut he`: "true", `{"ok":tr`: "", `{"x":1,"ok":"yes"`: "yes", `{"ok":1,"ok":2}`: "1", ``: "", `<html>`: "",
	} {
		r := parsePrefix([]byte(in))
		got := ""
		if n := r.doc.find("ok"); n != nil {
			got = r.doc.text(n)
		}
		r.release()
		if got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
}

// FuzzJSON holds the flat tree against encoding/json: what we accept, it accepts, and both see the same top-level texts.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{"a":1}`, `{"a":{"b":[1,"x",null]}}`, `{"\u0061":"\ud83d\ude00"}`, `[]`, `"x"`, `{"a":1,"a":2}`, "\xef\xbb\xbf{}", `{"a":"\ud800"}`, `{} {}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		pre := parsePrefix(b)
		checkTree(t, &pre.doc)
		pre.release()
		r, err := parseJSON(b)
		if err != nil {
			if reason(err) == stoplog.ReasonInternal {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		defer r.release()
		checkTree(t, &r.doc)
		if !json.Valid(b) {
			t.Fatalf("accepted what encoding/json refuses: %q", b)
		}
		var m map[string]json.RawMessage
		if json.Unmarshal(b, &m) != nil || m == nil {
			return
		}
		n := 0
		for c := int32(1); c < r.doc.nodes[0].next; c = r.doc.nodes[c].next {
			n++
		}
		if n != len(m) {
			t.Fatalf("%d members, encoding/json has %d: %q", n, len(m), b)
		}
		for name, raw := range m {
			i := r.doc.member(0, name)
			if i < 0 || !bytes.Equal(r.doc.raw[r.doc.nodes[i].start:r.doc.nodes[i].end], bytes.TrimSpace(raw)) {
				t.Fatalf("member %q differs in %q", name, b)
			}
		}
	})
}

func checkTree(t *testing.T, d *document) {
	for i := range d.nodes {
		n := &d.nodes[i]
		if n.start < 0 || n.end < n.start || int(n.end) > len(d.raw) || n.nameEnd < n.nameStart || int(n.next) <= i || int(n.next) > len(d.nodes) {
			t.Fatalf("node %d is out of bounds: %+v", i, *n)
		}
	}
}
