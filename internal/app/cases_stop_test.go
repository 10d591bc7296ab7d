package app_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/internal/app"
	"github.com/stoplog/stoplog/internal/operator"
	"github.com/stoplog/stoplog/receipts"
)

// A stop that is acknowledged while held messages are being released keeps the rest of them (ever-works/ever-works#2361,
// kestra-io/kestra#2230): each is judged again when its turn comes, and the record names the level and who raised it.
func TestStopDuringRelease(t *testing.T) {
	var n atomic.Int64
	var s *sidecar
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		drain(r)
		if n.Add(1) == 2 {
			s.raise("fleet", stoplog.L1)
		}
		io.WriteString(w, `{"ok":true,"ts":"1.1"}`)
	})
	s = start(t, []dest{{name: "slack", url: url}})
	s.raise("fleet", stoplog.L1)
	for range 5 {
		s.post("slack", "/api/chat.postMessage", `{"channel":"C0GENERAL","text":"x"}`, "Stoplog-Operation", unique())
	}
	s.lower("fleet", stoplog.L0)
	a, err := s.operator().ReleaseMany(t.Context(), operator.ReleaseRequest{Selection: operator.Selection{All: true}, Reason: "reviewed"})
	if err != nil || a.Sent != 2 || a.Kept != 3 {
		t.Errorf("released %+v, %v; want 2 sent and 3 kept", a, err)
	}
	holds, err := s.operator().Holds(t.Context())
	if err != nil || len(holds) != 3 || n.Load() != 2 {
		t.Errorf("%d holds, %v, %d messages at the vendor; want 3 and 2", len(holds), err, n.Load())
	}
	raises := s.find(func(r *receipts.Receipt) bool { return r.Type == receipts.TypeLevel && r.Note["to"] == "L1" })
	if len(raises) != 2 || raises[1].Note["actor"] == "" {
		t.Errorf("%+v, want two recorded raises by somebody", raises)
	}
}

// What is stopped says by which level, in the answer and in its receipt (elastic/kibana#257947, syifan/thebotcompany#137).
func TestStoppedEffectsNameTheLevel(t *testing.T) {
	s := start(t, []dest{{name: "playground"}})
	s.raise("tenant/acme", stoplog.L3)
	s.post("playground", "/messages", `{"to":"ada@example.com","text":"x"}`)
	s.post("playground", "/records", `{"name":"x"}`)
	s.post("playground", "/chat/completions", call)
	s.do("GET", s.URL("playground")+"/records", "")
	var rs []*receipts.Receipt
	eventually(t, "four decisions are recorded", func() bool {
		rs = s.find(func(r *receipts.Receipt) bool { return r.Decided })
		return len(rs) == 4
	})
	for i, want := range []stoplog.Verdict{stoplog.Hold, stoplog.Park, stoplog.Deny, stoplog.Deny} {
		if r := rs[i]; r.Verdict != want || r.Level != stoplog.L3 || r.Reason != stoplog.ReasonFullStop {
			t.Errorf("%s: %s %s at %s, want %s by L3", r.Class, r.Verdict, r.Reason, r.Level, want)
		}
	}
	raises := s.find(func(r *receipts.Receipt) bool { return r.Type == receipts.TypeLevel })
	if len(raises) != 1 || raises[0].Note["scope"] != "tenant/acme" || raises[0].Note["actor"] == "" || raises[0].Seq > rs[0].Seq {
		t.Errorf("%+v, want the raise before what it stopped", raises)
	}
	if n := len(s.fleet.Requests("playground")); n != 0 {
		t.Errorf("%d requests reached the vendor", n)
	}
}

// A stop hits its tenant and its destination, and a neighbour at the same destination goes on (reddb-io/red-skills#2472).
func TestStopOfOneTenant(t *testing.T) {
	s := start(t, []dest{{name: "slack"}, {name: "github"}}, withNeighbour(t, "other", "slack"))
	post := func(url string) answer {
		return s.do("POST", url+"/api/chat.postMessage", `{"channel":"C0GENERAL","text":"x"}`, "Stoplog-Operation", unique())
	}
	s.raise("tenant/acme", stoplog.L2)
	if a := post(s.URL("slack")); !strings.Contains(a.body, `"disposition":"held"`) {
		t.Errorf("the stopped tenant: %s", a.body)
	}
	if a := post(s.BoundURL("slack")); !strings.Contains(a.body, `"ok":true`) {
		t.Errorf("its neighbour: %s", a.body)
	}
	if a := s.do("GET", s.URL("github")+"/repos/o/r/issues", ""); a.status != 200 {
		t.Errorf("a read at L2: %d", a.status)
	}
	s.lower("tenant/acme", stoplog.L0)
	s.raise("destination/slack", stoplog.L2)
	if a := post(s.BoundURL("slack")); !strings.Contains(a.body, `"disposition":"held"`) {
		t.Errorf("the neighbour at a stopped destination: %s", a.body)
	}
	if a := s.post("github", "/repos/o/r/issues", `{"title":"x"}`); a.status != 201 {
		t.Errorf("another destination: %d %s", a.status, a.body)
	}
}

// An unreadable stop is no "go" (JiRaska/open-bank-oss#10571): after a start with a damaged level file writes and messages
// wait for a person, reads go on, and health says why.
func TestUnreadableLevelStops(t *testing.T) {
	data, err := os.MkdirTemp("", "sl")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(data)
	here := withOptions(func(o *app.Options) { o.Data = data })
	s := start(t, []dest{{name: "playground"}}, here)
	s.raise("fleet", stoplog.L1)
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "levels.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = start(t, []dest{{name: "playground"}}, here)
	if a := s.post("playground", "/messages", `{"to":"ada@example.com","text":"x"}`); a.problem(t).Disposition != "held" {
		t.Errorf("a message: %d %s, want held", a.status, a.body)
	}
	if a := s.post("playground", "/records", `{"name":"x"}`); a.problem(t).Disposition != "parked" {
		t.Errorf("a write: %d %s, want parked", a.status, a.body)
	}
	if a := s.do("GET", s.URL("playground")+"/records", ""); a.status != 200 {
		t.Errorf("a read: %d %s", a.status, a.body)
	}
	if a := s.do("GET", s.AdminURL()+"/healthz", ""); a.status != 503 || !strings.Contains(a.body, `"levels"`) {
		t.Errorf("health: %d %s, want the levels named", a.status, a.body)
	}
	s.lower("fleet", stoplog.L0)
	if a := s.post("playground", "/records", `{"name":"y"}`); a.status/100 != 2 {
		t.Errorf("after a person decided: %d %s", a.status, a.body)
	}
}
