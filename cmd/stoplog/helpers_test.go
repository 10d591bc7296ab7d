package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/internal/operator"
	"github.com/stoplog/stoplog/internal/operator/operatortest"
	"github.com/stoplog/stoplog/receipts"
	"github.com/stoplog/stoplog/receipts/segment"
)

var update = flag.Bool("update", false, "write the golden files")

// result of one command.
type result struct {
	code     int
	out, err string
}

// command runs one, as a user with the clock at operatortest.Start would.
func command(t *testing.T, args ...string) result {
	t.Helper()
	return commandIn(t.Context(), "", args...)
}

func commandIn(ctx context.Context, input string, args ...string) result {
	var out, err bytes.Buffer
	code := run(ctx, args, &console{
		in: strings.NewReader(input), out: &out, err: &err, zone: time.UTC, now: func() time.Time { return operatortest.Start },
	})
	return result{code, out.String(), err.String()}
}

// sidecar serves a fake's API in a data directory and returns the directory.
func sidecar(t *testing.T, f *operatortest.Fake) string {
	t.Helper()
	dir := shortDir(t)
	s, err := operator.Serve(filepath.Join(dir, operator.SocketName), operator.New(f.Deps()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return dir
}

// shortDir is a temporary folder whose path leaves room for a socket's name.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// recorded is a data directory with a real receipt log and no sidecar.
func recorded(t *testing.T) string {
	t.Helper()
	dir := shortDir(t)
	log, err := segment.Open(t.Context(), segment.Options{Dir: dir, Build: "test"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = log.Append(t.Context(),
		&receipts.Receipt{
			Type: receipts.TypeDecision, Destination: "slack", Class: stoplog.ClassMessage, Action: "chat.postMessage", Method: "POST",
			Decided: true, Verdict: stoplog.Deny, Reason: stoplog.ReasonPolicyDenied, Stage: "policy", Rule: "policies/no-dm", Actor: stoplog.Actor{Tenant: "acme", Agent: "bot"},
		},
		&receipts.Receipt{
			Type: receipts.TypeDecision, Method: "POST", Decided: true, Verdict: stoplog.Deny, Reason: stoplog.ReasonUnknownDestination, Stage: "accept",
			Note: map[string]string{"destination": "api.example.com", "method": "POST", "path": "/v1/things"},
		},
		&receipts.Receipt{
			Type: receipts.TypeOutcome, Destination: "openai", Class: stoplog.ClassModel, Action: "chat.completions", Method: "POST", Operation: "op_5",
			Outcome: &receipts.OutcomeLine{Outcome: stoplog.OutcomeConfirmed, Status: 200, Sent: "full", By: "response"},
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	err = log.Close()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// golden compares a text with testdata/name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, []byte(got), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s (run with -update if the difference is meant):\n%s\nwant:\n%s", path, got, want)
	}
}

func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	err := json.Unmarshal([]byte(text), &v)
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

func (r result) want(t *testing.T, code int, parts ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d\n%s%s", r.code, code, r.out, r.err)
	}
	for _, p := range parts {
		if !strings.Contains(r.out+r.err, p) {
			t.Errorf("%q is missing in\n%s%s", p, r.out, r.err)
		}
	}
}
