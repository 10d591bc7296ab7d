package connector

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoplog/stoplog"
)

func TestParseForm(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		want     stoplog.Reason
	}{
		{"plain", "a=1&b=2", ""},
		{"empty parts", "&a=1&&b=&", ""},
		{"brackets may repeat", "expand[]=a&expand[]=b", ""},
		{"declared may repeat", "tag=a&tag=b", ""},
		{"twice", "channel=C_OK&channel=C_EVIL", stoplog.ReasonDuplicateKey},
		{"twice behind an escape", "channel=C_OK&chann%65l=C_EVIL", stoplog.ReasonDuplicateKey},
		{"semicolon", "a=1;b=2", stoplog.ReasonMalformedBody},
		{"cut escape", "a=%z", stoplog.ReasonMalformedBody},
		{"not UTF-8", "a=%ff", stoplog.ReasonMalformedBody},
		{"no name", "=x", stoplog.ReasonMalformedBody},
		{"JSON without a name", `{"a":"b=c"}`, ""}, // one field with an odd name: nothing that is required is found there
		{"too many", strings.Repeat("a[]=1&", maxFields+1), stoplog.ReasonMalformedBody},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := parseForm([]byte(tc.in), []string{"tag"})
			if got := reason(err); got != tc.want {
				t.Errorf("got %q (%v), want %q", got, err, tc.want)
			}
		})
	}
}

const boundary = "XyZ"

func multi(parts ...string) string {
	return "--XyZ\r\n" + strings.Join(parts, "\r\n--XyZ\r\n") + "\r\n--XyZ--\r\n"
}

func TestParseMultipart(t *testing.T) {
	part := func(disposition, body string) string {
		return "Content-Disposition: " + disposition + "\r\n\r\n" + body
	}
	ok := part(`form-data; name="channels"`, "C1")
	for _, tc := range []struct {
		name, in string
		want     []pair // nil = refused
	}{
		{"field and file", multi(ok, part(`form-data; name="file"; filename="a.txt"`, "\x00\xff")), []pair{{name: "channels", value: "C1"}, {name: "file", file: true}}},
		{"quoted quote", multi(part(`form-data; name="a\"b"`, "")), []pair{{name: `a"b`}}},
		{"token name", multi(part(`form-data; name=a`, "x")), []pair{{name: "a", value: "x"}}},
		// owasp-modsecurity/ModSecurity#460 and its kin: each of these is read in two ways by two servers.
		{"two spellings of the file name", multi(part(`form-data; name="f"; filename="a.txt"; filename*=UTF-8''evil.sh`, "x")), nil},
		{"two names", multi(part(`form-data; name="a"; name="b"`, "x")), nil},
		{"field twice", multi(ok, ok), nil},
		{"no name", multi(part(`form-data`, "x")), nil},
		{"no disposition", multi("Content-Type: text/plain\r\n\r\nx"), nil},
		{"header twice", multi("Content-Disposition: form-data; name=a\r\ncontent-disposition: form-data; name=b\r\n\r\nx"), nil},
		{"folded header", multi("Content-Disposition: form-data;\r\n name=a\r\n\r\nx"), nil},
		{"attachment", multi(part(`attachment; name="a"`, "x")), nil},
		{"transfer encoding", multi("Content-Disposition: form-data; name=a\r\nContent-Transfer-Encoding: base64\r\n\r\nQzE="), nil},
		{"bare backslash", multi(part(`form-data; name="f"; filename="C:\x"`, "x")), nil},
		{"no final boundary", "--XyZ\r\n" + ok, nil},
		{"text before", "x\r\n" + multi(ok), nil},
		{"text after", multi(ok) + "--XyZ\r\n" + ok, nil},
		{"line feeds only", strings.ReplaceAll(multi(ok), "\r\n", "\n"), nil},
		{"part without body", "--XyZ\r\nContent-Disposition: form-data; name=a\r\n--XyZ--", nil},
		{"part without anything", "--XyZ\r\n--XyZ--", nil},
		{"boundary goes on", strings.Replace(multi(ok, ok), "\r\n--XyZ\r\n", "\r\n--XyZw\r\n", 1), nil},
		{"not UTF-8", multi(part(`form-data; name="a"`, "\xff")), nil},
		{"long header", multi(part(`form-data; name="a"; filename="`+strings.Repeat("x", maxPartHeader)+`"`, "")), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parseMultipart([]byte(tc.in), boundary, nil)
			if (err != nil) != (tc.want == nil) {
				t.Fatalf("error %v", err)
			}
			if err == nil {
				if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(pair{})); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
	for _, b := range []string{"", strings.Repeat("x", 71), "a\"b", "a "} {
		if _, err := parseMultipart([]byte("--"+b+"--"), b, nil); err == nil {
			t.Errorf("boundary %q was accepted", b)
		}
	}
}

func TestRequestMedia(t *testing.T) {
	for in, want := range map[string]Body{
		"application/json": BodyJSON, "Application/JSON; Charset=UTF-8": BodyJSON, "application/vnd.github+json": BodyJSON,
		"text/plain": BodyOpaque, "application/x-ndjson": BodyOpaque, "multipart/form-data; boundary=x": BodyMultipart,
		"application/x-www-form-urlencoded; charset=utf-8": BodyForm, "multipart/mixed; boundary=x": BodyOpaque,
	} {
		m, err := requestMedia(map[string][]string{"Content-Type": {in}})
		if err != nil || m.kind != want {
			t.Errorf("%s: got %v (%v), want %v", in, m.kind, err, want)
		}
	}
	for _, in := range [][]string{
		{"application/json", "text/plain"},
		{"application/json; charset=utf-16"},
		{"multipart/form-data; boundary=a; boundary=b"},
		{"application/json; x"},
		{`multipart/form-data; boundary="a`},
	} {
		if _, err := requestMedia(map[string][]string{"Content-Type": in}); err == nil {
			t.Errorf("%q was accepted", in)
		}
	}
}

// FuzzForm holds the form parser against net/url: what is accepted means the same there.
func FuzzForm(f *testing.F) {
	for _, s := range []string{"a=1&b=2", "a=%41+b", "a=1;b", "a=%", "=&=", "a[]=1&a[]=2", "&&"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, why := parsePairs(s, nil)
		if why != "" {
			return
		}
		want, err := url.ParseQuery(s)
		if err != nil {
			t.Fatalf("accepted what net/url refuses: %q: %v", s, err)
		}
		got := url.Values{}
		for _, x := range p {
			got.Add(x.name, x.value)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: got %v, want %v", s, got, want)
		}
	})
}

// FuzzMultipart: what is accepted is put together again to the same bytes' fields, and nothing panics.
func FuzzMultipart(f *testing.F) {
	f.Add([]byte(multi("Content-Disposition: form-data; name=a\r\n\r\nx")))
	f.Add([]byte(multi("Content-Disposition: form-data; name=\"a\"; filename=\"b\"\r\nContent-Type: text/plain\r\n\r\nx", "Content-Disposition: form-data; name=c\r\n\r\n")))
	f.Add([]byte("--XyZ--"))
	f.Add([]byte("--XyZ\r\n\r\n\r\n--XyZ--\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := parseMultipart(b, boundary, nil)
		if err != nil {
			reasonIsTyped(t, err)
			return
		}
		// The standard library, which forgives more, must see the same parts.
		r := multipart.NewReader(bytes.NewReader(b), boundary)
		for _, want := range got {
			p, err := r.NextRawPart()
			if err != nil {
				t.Fatalf("mime/multipart: %v in %q", err, b)
			}
			if (p.FileName() != "") && !want.file {
				t.Fatalf("a file was taken for a field in %q", b)
			}
			body, _ := io.ReadAll(p)
			if !want.file && (p.FormName() != want.name || string(body) != want.value) {
				t.Fatalf("got %q=%q, mime/multipart %q=%q", want.name, want.value, p.FormName(), body)
			}
		}
		if _, err := r.NextRawPart(); err != io.EOF && len(got) > 0 {
			t.Fatalf("mime/multipart sees more: %v in %q", err, b)
		}
	})
}
