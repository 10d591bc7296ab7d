package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stoplog/stoplog/internal/demo"
	"github.com/stoplog/stoplog/internal/operator"
)

// started is what `up --json` prints.
type upOutput struct {
	Admin        string            `json:"admin"`
	Destinations map[string]string `json:"destinations"`
}

// up runs `stoplog up` until the test ends, and checks that it ends well.
func up(t *testing.T, args ...string) upOutput {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	r, w := io.Pipe()
	code := make(chan int, 1)
	var log strings.Builder
	go func() {
		c := &console{in: strings.NewReader(""), out: w, err: &log, now: time.Now, zone: time.UTC}
		code <- run(ctx, append([]string{"--json", "up", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, args...), c)
		_ = w.Close()
	}()
	t.Cleanup(func() {
		stop()
		select {
		case n := <-code:
			if n != exitOK {
				t.Errorf("up: exit code %d\n%s", n, log.String())
			}
		case <-time.After(30 * time.Second):
			t.Error("up does not end")
		}
	})
	var o upOutput
	err := json.NewDecoder(r).Decode(&o)
	if err != nil {
		t.Fatalf("up: %v\n%s", err, log.String())
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	return o
}

func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

// The first hour with Stoplog: up without a file, a call to the playground, a freeze, a release, the receipts.
func TestUp(t *testing.T) {
	dir := shortDir(t)
	data := "--data=" + dir
	o := up(t, data, "--tenant", "acme", "--agent", "bot")
	const message = `{"to":"ada@example.com","text":"hello again"}`
	status, body := post(t, o.Destinations["playground"]+"/messages", `{"to":"ada@example.com","text":"hello"}`)
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	command(t, data, "level", "raise", "L1", "-r", "wrong text").want(t, exitOK, "fleet: L0 -> L1")
	status, body = post(t, o.Destinations["playground"]+"/messages", message)
	if status != http.StatusForbidden || !strings.Contains(body, "outreach_freeze") {
		t.Fatalf("%d %s", status, body)
	}
	command(t, data, "holds").want(t, exitOK, "outreach_freeze", "message.send", "acme", "bot")
	command(t, data, "holds", "release", "--all").want(t, exitRefused, "outreach_freeze")
	command(t, data, "level", "lower", "L0", "-r", "corrected").want(t, exitOK, "L1 -> L0")
	command(t, data, "holds", "release", "--all").want(t, exitOK, "confirmed")
	command(t, data, "breaker").want(t, exitOK, "playground", "closed")
	command(t, data, "budget").want(t, exitOK)
	command(t, data, "config").want(t, exitOK, "playground")
	post(t, o.Destinations["playground"][:strings.LastIndexByte(o.Destinations["playground"], '/')]+"/api.unknown.example/v1/x", "{}")
	command(t, data, "receipts", "tail", "-n", "0", "--type", "ctl.level").want(t, exitOK, "reason=corrected")
	command(t, data, "receipts", "verify").want(t, exitOK, "verified")

	r := command(t, data, "--json", "receipts", "tail", "--verdict", "hold")
	leaf := decode[struct {
		Seq int64  `json:"seq"`
		Op  string `json:"op"`
	}](t, strings.SplitN(r.out, "\n", 2)[0])
	command(t, data, "explain", leaf.Op).want(t, exitOK, "outreach freeze", "decision   allow", "confirmed: full sent")
	until := time.Now().Add(5 * time.Second)
	for !strings.Contains(command(t, data, "learn").out, "api.unknown.example") {
		if time.Now().After(until) {
			t.Fatal("learn learned nothing")
		}
		time.Sleep(20 * time.Millisecond)
	}

	// The admin port opens with the token of the data directory, and shows nothing without it.
	command(t, data, "--server", o.Admin, "holds").want(t, exitOK)
	status, body = post(t, o.Admin+"/v1/levels", `{"action":"raise","scope":"fleet","level":"L3"}`)
	if status != http.StatusForbidden {
		t.Errorf("%d %s", status, body)
	}
	l := decode[operator.List[operator.Level]](t, command(t, data, "level", "--json").out)
	if l.Items[0].Level != "L0" {
		t.Errorf("%+v", l)
	}
}

func TestUpRefusesBadFiles(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	err := os.WriteFile(bad, []byte("destination: []\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	command(t, "--data", shortDir(t), "up", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--config", bad).want(t, exitUsage, "bad.yaml:1:1", "destination")
}

func TestDemoCommand(t *testing.T) {
	r := command(t, "demo", "--json")
	r.want(t, exitOK)
	res := decode[demo.Result](t, r.out)
	if !res.OK || len(res.Scenes) != 7 {
		t.Errorf("%s", r.out)
	}
}
