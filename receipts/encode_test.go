package receipts

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gowebpki/jcs"
	"pgregory.net/rapid"

	"github.com/stoplog/stoplog"
)

// anyReceipt draws receipts with every member present or absent.
func anyReceipt() *rapid.Generator[*Receipt] {
	return rapid.Custom(func(t *rapid.T) *Receipt {
		text := func(name string) string { return rapid.StringN(0, 12, 40).Draw(t, name) }
		num := func(name string) int64 { return rapid.Int64Range(0, maxInteger).Draw(t, name) }
		flag := func(name string) bool { return rapid.Bool().Draw(t, name) }
		when := func(name string) time.Time {
			if flag(name + "?") {
				return time.Time{}
			}
			return time.UnixMicro(rapid.Int64Range(1, 4e15).Draw(t, name)).UTC()
		}
		com := func(name string) Commitment {
			return Commitment{Hash: text(name + ".c"), Bytes: num(name + ".n"), Media: text(name + ".ct")}
		}
		r := &Receipt{
			Type: Type(text("typ")), Log: text("log"), Seq: num("seq"), Time: when("ts"),
			Mono: time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "mono")) * time.Microsecond, Policy: text("pol"),
			Operation: stoplog.OperationID(text("op")), Attempt: int(num("att")), Intent: stoplog.IntentID(text("intent")),
			State:    text("state"),
			Actor:    stoplog.Actor{Tenant: text("ten"), Org: text("org"), Agent: text("agent"), Run: text("run")},
			Class:    stoplog.Class(rapid.IntRange(0, 4).Draw(t, "cls")),
			Path:     text("pt"),
			Request:  com("req"),
			Amount:   stoplog.Money{},
			Decided:  flag("dec"),
			Reason:   stoplog.Reason(text("why")),
			Observe:  flag("obs"),
			Level:    stoplog.Level(rapid.IntRange(0, 3).Draw(t, "lvl")),
			NotAfter: when("na"),
			Flags:    rapid.SliceOfN(rapid.StringN(0, 5, 20), 0, 3).Draw(t, "flags"),
		}
		if r.Decided {
			r.Verdict = stoplog.Verdict(rapid.IntRange(0, 4).Draw(t, "verdict"))
		}
		if flag("amt") {
			r.Amount = stoplog.Money{Currency: "EUR", Micros: rapid.Int64Range(-maxInteger, maxInteger).Draw(t, "micros")}
		}
		if flag("out") {
			r.Outcome = &OutcomeLine{
				Outcome: stoplog.Outcome(rapid.IntRange(0, 3).Draw(t, "outcome")),
				Health:  stoplog.Health(rapid.IntRange(0, 3).Draw(t, "health")),
				Status:  200, Response: com("resp"), ProviderID: text("rid"),
				Usage: stoplog.Usage{Input: num("in"), Known: flag("known")},
			}
		}
		if flag("led") {
			r.Ledger = &LedgerLine{Kept: flag("kept"), Expires: when("exp"), Credential: text("cr"), KeyTTL: time.Hour}
			copy(r.Ledger.Key[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "key"))
		}
		if flag("bud") {
			r.Budgets = []BudgetLine{{Budget: text("b"), Limit: num("l"), Actual: rapid.Int64Range(-1, 9).Draw(t, "a")}}
		}
		if flag("flt") {
			r.Stages = []StageVerdict{{Stage: text("f"), Verdict: stoplog.Allow}, {Reason: "x"}}
		}
		if flag("note") {
			r.Note = rapid.MapOfN(rapid.StringN(0, 4, 12), rapid.StringN(0, 9, 30), 1, 5).Draw(t, "note")
		}
		if len(r.Flags) == 0 {
			r.Flags = nil
		}
		return r
	})
}

// The encoder is canonical by construction: an independent RFC 8785 implementation finds nothing to change.
func TestEncodeIsCanonical(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyReceipt().Draw(t, "receipt")
		leaf, err := r.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		want, err := jcs.Transform(leaf)
		if err != nil {
			t.Fatalf("%s: %v", leaf, err)
		}
		if !bytes.Equal(leaf, want) {
			t.Fatalf("got  %s\nwant %s", leaf, want)
		}
		back, err := Decode(leaf)
		if err != nil {
			t.Fatalf("%s: %v", leaf, err)
		}
		if d := cmp.Diff(r, back); d != "" {
			t.Fatalf("decoded (-want +got):\n%s", d)
		}
	})
}

// Key order is that of UTF-16 code units and escapes are minimal, where "sorted JSON" of other writers differs
// (matrix-org/matrix-spec-proposals#4458, agentrust-io/trace-spec#74).
func TestEncodeOrderAndEscapes(t *testing.T) {
	r := &Receipt{Type: "t", Note: map[string]string{
		"\ufb33": "later", "\U0001f600": "sooner", "a": "\u2028 \u007f </&> \b\t\n\f\r\x01\"\\é",
	}}
	leaf, err := r.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"note":{"a":"` + "\u2028 \u007f </&>" + ` \b\t\n\f\r\u0001\"\\é","` + "\U0001f600" + `":"sooner","` + "\ufb33" +
		`":"later"},"seq":0,"typ":"t","v":1}`
	if string(leaf) != want {
		t.Errorf("got  %s\nwant %s", leaf, want)
	}
}

// What has no canonical form is refused and not folded into something else (cyberphone/json-canonicalization#20):
// invalid UTF-8 would become U+FFFD twice, 2^53 and 2^53+1 the same double.
func TestEncodeRefuses(t *testing.T) {
	tests := []struct {
		name string
		r    Receipt
		want error
	}{
		{"byte ff", Receipt{Host: "\xff"}, errUTF8},
		{"byte fe", Receipt{Host: "\xfe"}, errUTF8},
		{"lone surrogate", Receipt{Host: "\xed\xa0\x80"}, errUTF8},
		{"2^53", Receipt{Amount: stoplog.Money{Currency: "USD", Micros: 1 << 53}}, errInteger},
		{"too large", Receipt{Host: strings.Repeat("x", MaxLeaf)}, errSize},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.r.AppendJSON([]byte("before"))
			if !errors.Is(err, tt.want) || string(got) != "before" {
				t.Errorf("got %q, %v; want %v", got, err, tt.want)
			}
			leaf, err := tt.r.Cleaned().AppendJSON(nil)
			if err != nil {
				t.Fatalf("cleaned: %v", err)
			}
			back, err := Decode(leaf)
			if err != nil || back.Flags[0] != "cleaned" {
				t.Errorf("cleaned: %s, %v", leaf, err)
			}
		})
	}
	awful := strings.Repeat("\xff\"\n", 4000)
	worst := Receipt{
		Type: Type(awful), Host: awful, Path: awful, Rule: awful, Stage: awful, Function: awful, Subject: awful,
		Stages: make([]StageVerdict, 99), Budgets: make([]BudgetLine, 99), Note: map[string]string{awful: awful},
	}
	for i := range worst.Stages {
		worst.Stages[i] = StageVerdict{Stage: awful, Rule: awful, Reason: stoplog.Reason(awful)}
		worst.Budgets[i] = BudgetLine{Budget: awful, Key: awful, Unit: awful, Limit: 1 << 62}
		worst.Flags = append(worst.Flags, awful)
	}
	_, err := worst.Cleaned().AppendJSON(nil)
	if err != nil {
		t.Errorf("worst case cleaned: %v", err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, leaf := range []string{
		``, `{}`, `{"v":2}`, `{"v":1} `, ` {"v":1}`, `{"v":1}{}`, `{"v":1,"v":1}`, `{"v":1,"typ":"x"}`,
		`{"v":01}`, `{"v":1.0}`, `{"v":1e0}`, `{"seq":-0,"v":1}`, `{"seq":9007199254740992,"v":1}`, `{"seq":1e400,"v":1}`,
		`{"typ":"\u0061","v":1}`, `{"typ":"\/","v":1}`, `{"typ":"\u000A","v":1}`, `{"typ":"\u000a","v":1}`,
		"{\"typ\":\"\xff\",\"v\":1}", `{"typ":null,"v":1}`, `{"typ":3,"v":1}`, `{"new":null,"v":1}`, `{"new":1.5,"v":1}`,
		`{"dec":"maybe","v":1}`, `{"new":[[[[[[[[[1]]]]]]]]],"v":1}`, `{"note":{"b":"","a":""},"v":1}`,
	} {
		_, err := Decode([]byte(leaf))
		if err == nil {
			t.Errorf("%s: accepted", leaf)
		}
	}
}

// Unknown members of a known version are kept in the leaf and ignored.
func TestDecodeUnknownMembers(t *testing.T) {
	r, err := Decode([]byte(`{"aaa":{"x":[1,true,"s"]},"host":"h","v":1,"zzz":-5}`))
	if err != nil || r.Host != "h" {
		t.Errorf("got %+v, %v", r, err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"note":{"a":"\n"},"seq":0,"typ":"t","v":1}`))
	f.Add([]byte(`{"led":{"k":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},"v":1,"zz":[{}]}`))
	leaf, _ := sample().AppendJSON(nil)
	f.Add(leaf)
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Decode(b)
		if err != nil {
			return
		}
		want, err := jcs.Transform(b)
		if err != nil || !bytes.Equal(b, want) {
			t.Fatalf("accepted %q, canonical form %q, %v", b, want, err)
		}
		again, err := r.AppendJSON(nil)
		if err != nil {
			t.Fatalf("decoded but cannot be encoded: %q: %v", b, err)
		}
		back, err := Decode(again)
		if err != nil {
			t.Fatalf("%q: %v", again, err)
		}
		if d := cmp.Diff(r, back); d != "" {
			t.Fatal(d)
		}
	})
}

func sample() *Receipt {
	c := NewCommitter([32]byte{1})
	return &Receipt{
		Type: TypeDispatching, Log: "stoplog.local/000001-5bd1e2a9", Seq: 4711, Time: time.UnixMicro(1767225600000000).UTC(),
		Mono: time.Second, Policy: "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		Operation: "op_01890a5d-ac96-774b-bcce-b302099a8057", Attempt: 1, Intent: "int_1", State: "dispatching",
		Actor:    stoplog.Actor{Tenant: "acme", Org: "sales", Agent: "mailer", Run: "run-9"},
		Function: "out", Destination: "slack", Connector: "slack", Class: stoplog.ClassMessage, Action: "chat.postMessage",
		Method: "POST", Host: "slack.com", Path: "/api/chat.postMessage",
		Request:    Commitment{Hash: c.Commit(LabelRequest, []byte("hello")), Bytes: 5, Media: "application/json"},
		Recipients: c.List(LabelRecipients, []string{"C1"}), Decided: true, Verdict: stoplog.Allow, Reason: stoplog.ReasonAllowed,
		Stage: "claim", Stages: []StageVerdict{{Stage: "level", Verdict: stoplog.Allow, Reason: stoplog.ReasonAllowed}},
		Breaker: "closed", AttemptsLeft: 3, DeadlineMS: 29000, NotAfter: time.UnixMicro(1767225630000000).UTC(),
		Budgets: []BudgetLine{{Budget: "msg", Key: "acme", Unit: "msg", Limit: 100, Before: 3, Reserved: 1, Actual: -1}},
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	r := sample()
	dst := make([]byte, 0, MaxLeaf)
	b.ReportAllocs()
	for b.Loop() {
		dst, _ = r.AppendJSON(dst[:0])
	}
	b.ReportMetric(float64(len(dst)), "leaf-bytes")
}

func BenchmarkDecode(b *testing.B) {
	leaf, _ := sample().AppendJSON(nil)
	b.ReportAllocs()
	for b.Loop() {
		_, err := Decode(leaf)
		if err != nil {
			b.Fatal(err)
		}
	}
}
