package connector

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoplog/stoplog"
)

func TestEstimate(t *testing.T) {
	for _, tc := range []struct {
		name, text  string
		least, most int64
	}{
		{"English", strings.Repeat("The quick brown fox jumps. ", 100), 600, 750},       // about 600 tokens
		{"Chinese", strings.Repeat("你好世界", 100), 400, 700},                              // about 400
		{"escaped Chinese", strings.Repeat(`\u4f60\u597d`, 100), 200, 400},              // about 200
		{"image", "data:image/png;base64," + strings.Repeat("QUJD", 10000), 1600, 2500}, // not ten thousand
		{"prose that calls itself data", "data: " + strings.Repeat("word ", 1000), 1200, 1400},
	} {
		var n tokenCount
		r, err := parseJSON([]byte(`"` + tc.text + `"`))
		if err != nil {
			t.Fatal(err)
		}
		n.document(&r.doc)
		r.release()
		if got := n.tokens(); got < tc.least || got > tc.most {
			t.Errorf("%s: %d tokens, want %d to %d", tc.name, got, tc.least, tc.most)
		}
	}
}

func TestAmounts(t *testing.T) {
	for _, tc := range []struct {
		value, currency string
		minor           bool
		want            stoplog.Money
	}{
		{"1999", "usd", true, stoplog.Money{Currency: "USD", Micros: 19_990_000}},
		{"500", "jpy", true, stoplog.Money{Currency: "JPY", Micros: 500_000_000}},
		{"1234", "kwd", true, stoplog.Money{Currency: "KWD", Micros: 1_234_000}},
		{"19.99", "EUR", false, stoplog.Money{Currency: "EUR", Micros: 19_990_000}},
		{"0", "usd", true, stoplog.Money{Currency: "USD"}},
		{"0.0000001", "usd", false, stoplog.Money{Currency: "USD", Micros: 1}},
		{"5", "", true, stoplog.Money{Currency: "XXX", Micros: 50_000}},
		{"", "usd", true, stoplog.Money{}},
	} {
		a := amountSource{value: source{place: placeForm, name: "a"}, currency: source{place: placeForm, name: "c"}, minor: tc.minor}
		got, err := a.read(&input{fields: []pair{{name: "a", value: tc.value}, {name: "c", value: tc.currency}}})
		if err != nil || got != tc.want {
			t.Errorf("%s %s: got %+v (%v), want %+v", tc.value, tc.currency, got, err, tc.want)
		}
	}
}

func TestTransforms(t *testing.T) {
	for _, tc := range []struct {
		list []string
		in   string
		want []string
	}{
		{[]string{"split:,", "lower"}, "A, b ,,C", []string{"a", "b", "c"}},
		{[]string{"address"}, "Ann Lee <Ann@X.org>", []string{"ann@x.org"}},
		{[]string{"address"}, " ann@x.org ", []string{"ann@x.org"}},
		{[]string{"before:@"}, "ann@x.org", []string{"ann"}},
		{[]string{"after:@"}, "ann@x.org", []string{"x.org"}},
		{[]string{"last:/"}, "a/b/c", []string{"c"}},
		{[]string{"last:/"}, "abc", []string{"abc"}},
		{[]string{"digits"}, "whatsapp:+1 (555) 0", []string{"+15550"}},
		{[]string{"trim", "prefix:u:", "suffix:!"}, " x ", []string{"u:x!"}},
		{[]string{"prefix:u:"}, "", nil},
		{[]string{"decode"}, "a%40b", []string{"a@b"}},
	} {
		s, err := compileSource(&Source{Query: "q", Transforms: tc.list})
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.values(&input{query: []pair{{name: "q", value: tc.in}}}, nil)
		if err != nil || !cmp.Equal(got, tc.want, cmp.Transformer("n", func(v []string) []string { return append([]string{}, v...) })) {
			t.Errorf("%v of %q: got %q (%v), want %q", tc.list, tc.in, got, err, tc.want)
		}
	}
	for _, bad := range []string{"upper", "split", "split:", "lower:x", ""} {
		if _, err := compileTransforms([]string{bad}); err == nil {
			t.Errorf("transform %q was accepted", bad)
		}
	}
}
