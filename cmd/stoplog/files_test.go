package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stoplog/stoplog/internal/operator"
	"github.com/stoplog/stoplog/receipts"
)

func TestReceiptsFromFiles(t *testing.T) {
	data := "--data=" + recorded(t)
	r := command(t, data, "receipts", "tail", "-n", "0")
	r.want(t, exitOK, "log.open", "policy_denied", "slack chat.postMessage", "confirmed", "op_5", "log.seal")
	r = command(t, data, "receipts", "tail", "--verdict", "deny", "--json")
	r.want(t, exitOK)
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines: %s", len(lines), r.out)
	}
	for _, l := range lines {
		_, err := receipts.Decode([]byte(l))
		if err != nil {
			t.Errorf("not a leaf: %v", err)
		}
	}
	command(t, data, "receipts", "show", "op_5").want(t, exitOK, "chat.completions at openai", "confirmed: full sent, the destination answered 200")
	command(t, data, "receipts", "show", "77").want(t, exitFailed, "no receipt 77")
	command(t, "--data", shortDir(t), "receipts", "tail").want(t, exitUsage, "no receipts in")
}

func TestExplain(t *testing.T) {
	data := "--data=" + recorded(t)
	command(t, data, "explain", "1").want(t, exitOK, "decision   deny: A policy denies it", "decided by policy, rule policies/no-dm", "to change", "would have to select otherwise")
	r := command(t, data, "explain", "2", "--json")
	r.want(t, exitOK)
	x := decode[operator.List[operator.Explanation]](t, r.out).Items
	if len(x) != 1 || x[0].Reason != "unknown_destination" || len(x[0].Change) == 0 || !x[0].Enforced {
		t.Errorf("%s", r.out)
	}
}

func TestVerify(t *testing.T) {
	dir := recorded(t)
	data := "--data=" + dir
	command(t, data, "receipts", "verify").want(t, exitOK, "verified: 5 records in 1 logs", "Keep identity.pub elsewhere")
	pub := filepath.Join(dir, "identity.pub")
	r := command(t, data, "receipts", "verify", "--key", pub, "--json")
	r.want(t, exitOK)
	if v := decode[map[string]any](t, r.out); v["ok"] != true || v["pinned"] != true || v["records"] != float64(5) {
		t.Errorf("%s", r.out)
	}

	p := command(t, data, "receipts", "prove", "1")
	p.want(t, exitOK)
	proof := filepath.Join(t.TempDir(), "proof.json")
	err := os.WriteFile(proof, []byte(p.out), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	command(t, "--data", "/none", "receipts", "verify", "--proof", proof, "--key", pub).want(t, exitOK, "is in the log", "policies/no-dm")
	err = os.WriteFile(proof, []byte(strings.Replace(p.out, "no-dm", "no-im", 1)), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	command(t, data, "receipts", "verify", "--proof", proof, "--key", pub).want(t, exitUnverified)

	other, key, err := receipts.NewKey("stoplog.local")
	if err != nil || other == "" {
		t.Fatal(err)
	}
	command(t, data, "receipts", "verify", "--key", key).want(t, exitUnverified, "NOT VERIFIED", "foreign")

	segments, _ := filepath.Glob(filepath.Join(dir, "log", "*", "*.seg"))
	b, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	_ = os.WriteFile(segments[0], bytes.Replace(b, []byte("no-dm"), []byte("no-im"), 1), 0o600)
	command(t, data, "receipts", "verify").want(t, exitUnverified, "NOT VERIFIED", "FAULT")
	r = command(t, data, "receipts", "verify", "--json")
	r.want(t, exitUnverified)
	if v := decode[map[string]any](t, r.out); v["ok"] != false {
		t.Errorf("%s", r.out)
	}
}

// What learn prints is accepted by check.
func TestLearnAndCheck(t *testing.T) {
	data := "--data=" + recorded(t)
	r := command(t, data, "learn")
	r.want(t, exitOK, "api.example.com", "/v1/things")
	file := filepath.Join(t.TempDir(), "learned.yaml")
	err := os.WriteFile(file, []byte(r.out), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	command(t, "check", file).want(t, exitOK, "ok: 1 destinations, version sha256:")
	command(t, data, "learn", "--json").want(t, exitOK, `"host": "api.example.com"`)
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	err := os.WriteFile(bad, []byte("destinations:\n  - name: slack\n    url: https://slack.com\n    retrys: {}\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	command(t, "check", bad).want(t, exitUsage, "bad.yaml:4:", "retrys", "problem(s)")
	r := command(t, "check", bad, "--json")
	r.want(t, exitUsage)
	v := decode[struct {
		OK       bool      `json:"ok"`
		Problems []finding `json:"problems"`
	}](t, r.out)
	at4 := slices.IndexFunc(v.Problems, func(f finding) bool { return f.Line == 4 && strings.Contains(f.Field+f.Problem, "retrys") })
	if v.OK || at4 < 0 {
		t.Errorf("%s", r.out)
	}
	command(t, "check", filepath.Join(dir, "none.yaml")).want(t, exitUsage, "none.yaml")

	good := filepath.Join(dir, "good.yaml")
	err = os.WriteFile(good, []byte(command(t, "config", "default").out), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	command(t, "check", good).want(t, exitOK, "ok:")
	command(t, "config", "reference").want(t, exitOK, "destinations:")
	command(t, "config", "profile", "slack").want(t, exitOK, "chat.postMessage")
	boot := filepath.Join(dir, "bootstrap.yaml")
	_ = os.WriteFile(boot, []byte("admin_address: 127.0.0.1:7999\n"), 0o600)
	command(t, "check", "--bootstrap", boot).want(t, exitOK, "ok")
	_ = os.WriteFile(boot, []byte("admin_adress: 127.0.0.1:7999\n"), 0o600)
	command(t, "check", "--bootstrap", boot).want(t, exitUsage, "admin_adress")
}

func TestVersion(t *testing.T) {
	command(t, "version").want(t, exitOK, "stoplog dev")
	command(t, "version", "--json").want(t, exitOK, `"version": "dev"`)
}

// Texts that come from elsewhere cannot move the cursor or hide lines.
func TestOutputIsClean(t *testing.T) {
	var out bytes.Buffer
	c := &console{out: &out}
	tab := &table{head: []string{"A"}}
	tab.add("x\x1b[2Jy\n\u202ez")
	c.print(tab)
	if strings.ContainsAny(out.String(), "\x1b\u202e") || strings.Count(out.String(), "\n") != 2 {
		t.Errorf("%q", out.String())
	}
}

func TestColor(t *testing.T) {
	var out bytes.Buffer
	c := &console{out: &out, color: true}
	tab := &table{head: []string{"STATE", "NEXT"}}
	tab.add("open", "x")
	c.print(tab)
	if !strings.Contains(out.String(), "\x1b[31mopen\x1b[0m   x") {
		t.Errorf("%q", out.String())
	}
}
