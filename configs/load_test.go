package configs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/configs/configv1"
)

// dest is a valid destination with its own host.
func dest(name string) string {
	return `  - name: ` + name + `
    url: https://` + name + `.example.com
    connector_profile: slack
    deadline: {total: 30s, per_attempt: 10s}
    breaker: {window: 10s, min_requests: 20, failure_bps: 5000, consecutive_failures: 12, cooldown: 30s, probes_per_second: 20, close_after: 20}
    limit: {requests: {capacity: 10, refill_tokens: 5, refill_interval: 1s}, max_concurrency: 8, tenant_share_bps: 5000}
`
}

func write(t *testing.T, dir string, files map[string]string) string {
	t.Helper()
	for name, text := range files {
		err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestLoadDirJoinsFiles(t *testing.T) {
	dir := write(t, t.TempDir(), map[string]string{
		"b.yaml": "destinations:\n" + dest("b"), "a.yml": "destinations:\n" + dest("a"), "c.json": `{"policies": []}`,
		".hidden.yaml": "nonsense: [", "notes.txt": "nonsense: [",
	})
	s, err := LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range s.Destinations() {
		names = append(names, d.Name)
	}
	if got := strings.Join(names, " "); got != "a b" {
		t.Errorf("destinations %q, want a b", got)
	}
}

// A mounted ConfigMap holds links into a folder that is swapped whole.
func TestLoadDirFollowsLinks(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "..2026_11_30")
	err := os.Mkdir(data, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	write(t, data, map[string]string{"a.yaml": "destinations:\n" + dest("a")})
	for from, to := range map[string]string{"..2026_11_30": "..data", "..data/a.yaml": "a.yaml"} {
		err := os.Symlink(from, filepath.Join(dir, to))
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err = LoadDir(dir)
	if err != nil {
		t.Error(err)
	}
}

func TestProblemsOfAllFilesComeTogether(t *testing.T) {
	dir := write(t, t.TempDir(), map[string]string{
		"a.yaml": "destinations:\n" + dest("one") + "colour: red\n",
		"b.yaml": "destinations:\n" + dest("one") + strings.Replace(dest("two"), "two.example.com", "one.example.com", 1),
		"c.yaml": "",
	})
	_, err := Load(dir, filepath.Join(dir, "missing.yaml"))
	if err == nil || !strings.Contains(err.Error(), "missing.yaml: cannot be read: no such file or directory") {
		t.Errorf("missing file: %v", err)
	}
	_, err = LoadDir(dir)
	var all Errors
	if !errors.As(err, &all) {
		t.Fatalf("%T is not Errors", err)
	}
	want := []string{
		"a.yaml:8:1 colour: unknown key",
		`b.yaml:2:11 destinations[0].name: "one" is taken in ` + dir + "/a.yaml:2",
		"c.yaml: empty",
	}
	if len(all) != len(want) {
		t.Fatalf("%d problems, want %d:\n%v", len(all), len(want), err)
	}
	for i, w := range want {
		if !strings.HasPrefix(all[i].Error(), dir+"/"+w) {
			t.Errorf("problem %d:\n got %s\nwant %s", i, all[i], w)
		}
	}
	var one *Error
	if !errors.As(err, &one) || one.Line != 8 || one.Column != 1 || one.Field != "colour" {
		t.Errorf("first problem %+v", one)
	}
}

func TestLoadNeedsSomething(t *testing.T) {
	for _, paths := range [][]string{nil, {t.TempDir()}, {"no-such-folder"}} {
		_, err := Load(paths...)
		if err == nil {
			t.Errorf("Load(%q) gave no error", paths)
		}
	}
}

func TestBytesThatAreNotText(t *testing.T) {
	for _, text := range []string{"a: \xff", "a: b\rc: d", "a: \u2028 b", "\x00", "a: b\n\u0085"} {
		_, err := Parse("x", []byte(text))
		if err == nil {
			t.Errorf("%q was taken", text)
		}
	}
	crlf := strings.ReplaceAll("destinations:\n"+dest("a"), "\n", "\r\n")
	_, err := Parse("x", []byte(crlf))
	if err != nil {
		t.Errorf("CRLF: %v", err)
	}
	_, err = Parse("x", []byte("# "+strings.Repeat("x", maxFileBytes)))
	if err == nil || !strings.Contains(err.Error(), "larger than 16 MiB") {
		t.Errorf("large file: %.100v", err)
	}
}

// A short file cannot mean a huge one.
func TestAliasesAreBounded(t *testing.T) {
	text := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		text += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 10))
	}
	_, err := Parse("x", []byte(text))
	if err == nil || !strings.Contains(err.Error(), "the aliases stand for too much") {
		t.Errorf("error %.200v", err)
	}
}

func TestVersionIsOfTheContent(t *testing.T) {
	load := func(files map[string]string) string {
		s, err := LoadDir(write(t, t.TempDir(), files))
		if err != nil {
			t.Fatal(err)
		}
		return s.Version()
	}
	one := load(map[string]string{"a.yaml": "destinations:\n" + dest("a") + dest("b")})
	two := load(map[string]string{"x.yaml": "# comment\ndestinations:\n" + dest("b"), "y.yaml": "destinations:\n" + dest("a")})
	other := load(map[string]string{"a.yaml": "destinations:\n" + dest("a") + strings.Replace(dest("b"), "30s", "31s", 1)})
	if one != two {
		t.Error("the same content in other files has another version")
	}
	if one == other {
		t.Error("another content has the same version")
	}
	if !strings.HasPrefix(one, "sha256:") || len(one) != 7+64 {
		t.Errorf("version %q", one)
	}
}

func TestBundleIsACopyAndLoadsAgain(t *testing.T) {
	s, err := Load("reference.yaml")
	if err != nil {
		t.Fatal(err)
	}
	b := s.Bundle()
	again, err := New(b)
	if err != nil {
		t.Fatal(err)
	}
	if again.Version() != s.Version() {
		t.Error("the bundle of a snapshot makes another snapshot")
	}
	b.Destinations[0].Name = "changed"
	if s.Bundle().GetDestinations()[0].GetName() == "changed" {
		t.Error("a caller can change the snapshot")
	}
	text, err := s.JSON()
	if err != nil {
		t.Fatal(err)
	}
	fromJSON, err := Parse("dump.json", text)
	if err != nil {
		t.Fatal(err)
	}
	if fromJSON.Version() != s.Version() {
		t.Error("the dump of a snapshot makes another snapshot")
	}
}

func TestOwnProfileReplacesShipped(t *testing.T) {
	text := "destinations:\n" + dest("a")
	s, err := Parse("x", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	shipped := s.Bundle().GetConnectorProfiles()
	if len(shipped) != 1 || shipped[0].GetName() != "slack" {
		t.Fatalf("profiles in force: %v", shipped)
	}
	s, err = Parse("x", []byte(text+"connector_profiles:\n  - name: slack\n    operations: [{action: mine, methods: [GET], path: /x, class: READ}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	own := s.Bundle().GetConnectorProfiles()
	if len(own) != 1 || len(own[0].GetOperations()) != 1 || own[0].GetOperations()[0].GetAction() != "mine" {
		t.Errorf("profiles in force: %v", own)
	}
}

func TestHostLookup(t *testing.T) {
	s, err := Load("testdata/../reference.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for authority, want := range map[string]string{
		"crm.example.com": "crm", "CRM.example.com:443": "crm", "crm-eu.example.com": "crm", "crm.example.com:80": "",
		"10.20.0.5:8080": "models", "10.20.0.5": "", "example.com": "", "": "",
	} {
		got := ""
		if d := s.DestinationOf(authority); d != nil {
			got = d.Name
		}
		if got != want {
			t.Errorf("DestinationOf(%q) = %q, want %q", authority, got, want)
		}
		if (s.Authorities()[strings.ToLower(authority)] != nil) != (want != "") {
			t.Errorf("Authorities()[%q] differs from DestinationOf", authority)
		}
	}
	if s.Destination("nobody") != nil {
		t.Error("a destination that nobody has")
	}
}

func TestSelector(t *testing.T) {
	e := &stoplog.Effect{
		Class: stoplog.ClassWrite, Action: "payments.create", Destination: "crm", Function: "com",
		Actor: stoplog.Actor{Tenant: "acme", Agent: "bot"},
	}
	for _, c := range []struct {
		name string
		s    Selector
		want bool
	}{
		{"empty", Selector{}, true},
		{"exact", Selector{Tenants: []string{"acme"}, Agents: []string{"x", "bot"}}, true},
		{"prefix", Selector{Actions: []string{"payments.*"}}, true},
		{"other prefix", Selector{Actions: []string{"payment.*"}}, false},
		{"no prefix without star", Selector{Actions: []string{"payments."}}, false},
		{"class", Selector{Classes: []stoplog.Class{stoplog.ClassMessage, stoplog.ClassWrite}}, true},
		{"other class", Selector{Classes: []stoplog.Class{stoplog.ClassRead}}, false},
		{"one of two fails", Selector{Destinations: []string{"crm"}, Functions: []string{"out"}}, false},
	} {
		if got := c.s.Matches(e); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestBudgetSelects(t *testing.T) {
	s, err := Parse("x", []byte("destinations:\n"+dest("a")+"budgets: [{name: b, selector: {agents: [\"bot-*\"]}, messages: 1, window: DAY, keyed_by: [FLEET]}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	b := s.Spend().Budgets[0]
	if !b.Selects(&stoplog.Effect{Actor: stoplog.Actor{Agent: "bot-1"}}) || b.Selects(&stoplog.Effect{}) || len(b.Per) != 0 {
		t.Errorf("budget %+v", b)
	}
}

// The schema's classes and levels are turned into Go's by their numbers.
func TestEnumsAgree(t *testing.T) {
	for n, name := range configv1.Class_name {
		c, err := stoplog.ParseClass(strings.ToLower(name))
		if n > 0 && (err != nil || int32(c) != n) {
			t.Errorf("class %s is %d here and %d there", name, n, c)
		}
	}
	for n, name := range configv1.Level_name {
		l, err := stoplog.ParseLevel(name)
		if n > 0 && (err != nil || level(configv1.Level(n)) != l) {
			t.Errorf("level %s becomes %s", name, level(configv1.Level(n)))
		}
	}
}

// n probes may arrive in any second, also when each is up to 52 ms late.
func TestProbeSpacing(t *testing.T) {
	if got := probeSpacing(20); got != 52632*time.Microsecond {
		t.Errorf("20 probes: %s", got)
	}
	const late = 52 * time.Millisecond
	for n := uint32(1); n <= 20; n++ {
		most := (time.Second+late-1)/probeSpacing(n) + 1
		if most > time.Duration(n) {
			t.Errorf("%d probes per second at %s: up to %d in a second", n, probeSpacing(n), most)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"connector_profile", "deadline", "hosts", "hold", "url", "deny", "L1"}
	for got, want := range map[string]string{
		"connectorProfile": "connector_profile", "conector_profile": "connector_profile", "dealdine": "deadline", "host": "hosts",
		"URL": "url", "uri": "url", "xyz": "", "": "", "completely_different": "",
	} {
		if n := nearest(got, names); n != want {
			t.Errorf("nearest(%q) = %q, want %q", got, n, want)
		}
	}
}

func TestNewChecksLikeFiles(t *testing.T) {
	b := &configv1.Bundle{Destinations: []*configv1.Destination{{Name: "a"}}}
	_, err := New(b)
	if err == nil || !strings.Contains(err.Error(), `destinations[0].breaker: missing`) {
		t.Errorf("error %v", err)
	}
	if !proto.Equal(b, &configv1.Bundle{Destinations: []*configv1.Destination{{Name: "a"}}}) {
		t.Error("the argument was changed")
	}
}

func TestProblems(t *testing.T) {
	if Problems(nil) != nil {
		t.Error("problems of nothing")
	}
	one := &Error{Problem: "x"}
	for _, err := range []error{one, Errors{one}, errors.New("x")} {
		p := Problems(err)
		if len(p) != 1 || p[0].Problem != "x" {
			t.Errorf("Problems(%v) = %v", err, p)
		}
	}
}
