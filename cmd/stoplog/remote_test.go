package main

import (
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission/killswitch"
	"github.com/stoplog/stoplog/internal/operator"
	"github.com/stoplog/stoplog/internal/operator/operatortest"
)

func TestLevelCommands(t *testing.T) {
	f := operatortest.New()
	data := "--data=" + sidecar(t, f)
	command(t, data, "level").want(t, exitOK, "fleet  L0")
	command(t, data, "level", "raise", "l2", "--scope", "tenant/acme", "-r", "wrong invoices").
		want(t, exitOK, "tenant/acme: L0 -> L2", "receipt: test.local/000001@0")
	r := command(t, data, "level", "get", "tenant/acme", "--json")
	r.want(t, exitOK)
	l := decode[operator.List[operator.Level]](t, r.out)
	if len(l.Items) != 1 || l.Items[0].Level != "L2" || l.Items[0].Epoch == 0 || l.Items[0].Raises[0].Reason != "wrong invoices" {
		t.Errorf("%s", r.out)
	}
	command(t, data, "level", "get", "nonsense").want(t, exitUsage, "scope")
	command(t, data, "level", "lower", "L0", "--scope", "tenant/acme", "-r", "corrected").
		want(t, exitOK, "stands: L2 on tenant/acme, raised by", "wrong invoices", "tenant/acme: L2 -> L0", "holds list")
	command(t, data, "level", "lower", "L0", "--scope", "tenant/acme", "-r", "again").want(t, exitRefused, "not lower")
}

// A raise that the human has not seen stands, and the exit code says so.
func TestLowerAnswersWhatWasSeen(t *testing.T) {
	f := operatortest.New()
	data := "--data=" + sidecar(t, f)
	command(t, data, "level", "raise", "L1").want(t, exitOK)
	seen := decode[operator.List[operator.Level]](t, command(t, data, "level", "get", "--json").out).Items[0].Epoch
	_, _ = f.Raise(t.Context(), stoplog.ScopeFleet, killswitch.Raise{Level: stoplog.L2, Actor: "automation:leak", Reason: "leak"})
	if seen != 1 {
		t.Fatal(seen)
	}
	command(t, data, "level", "lower", "L0", "-r", "x", "--seen", "1").want(t, exitRefused, "fleet: L2 -> L2", "not seen stands")
}

func TestLowerAsksOnATerminal(t *testing.T) {
	for answer, code := range map[string]int{"y\n": exitOK, "\n": exitRefused, "": exitRefused, "no\n": exitRefused} {
		f := operatortest.New()
		dir := sidecar(t, f)
		command(t, "--data", dir, "level", "raise", "L1").want(t, exitOK)
		var out strings.Builder
		c := &console{in: strings.NewReader(answer), out: &out, err: &out, tty: true}
		std := *c
		std.now, std.zone = func() time.Time { return operatortest.Start }, time.UTC
		got := run(t.Context(), []string{"--data", dir, "level", "lower", "L0", "-r", "x"}, &std)
		if got != code || !strings.Contains(out.String(), "Lower fleet from L1 to L0? [y/N]") {
			t.Errorf("%q: exit code %d\n%s", answer, got, out.String())
		}
	}
}

func TestHoldsCommands(t *testing.T) {
	f := operatortest.New()
	data := "--data=" + sidecar(t, f)
	r := command(t, data, "holds")
	r.want(t, exitOK)
	golden(t, "holds-list.txt", r.out)
	command(t, data, "holds", "release").want(t, exitUsage, "--all")
	command(t, data, "holds", "release", "--all", "-n").want(t, exitOK, "Would judge anew: 2 (1 messages, 1 others) to 1 recipients", "slack: 1")
	command(t, data, "holds", "release", "op_1", "op_9").want(t, exitFailed, "allow", "confirmed", "op_9 is not held")
	f.Result = func(stoplog.OperationID) (operator.ReleaseResult, error) {
		return operator.ReleaseResult{Decision: stoplog.Decision{Verdict: stoplog.Park, Reason: stoplog.ReasonWriteFreeze, Detail: "the level is L2"}}, nil
	}
	command(t, data, "holds", "release", "--destination", "stripe").want(t, exitRefused, "write_freeze", "0 sent, 1 stay kept", "the level is L2")
	command(t, data, "holds", "withdraw", "op_2", "-r", "stale").want(t, exitOK, "op_2 withdrawn")
	command(t, data, "holds", "list").want(t, exitOK, "Nothing is held")
	command(t, data, "holds", "withdraw", "op_9").want(t, exitFailed, "no operation op_9")
	r = command(t, data, "--json", "holds", "list")
	if l := decode[operator.List[operator.Operation]](t, r.out); l.Items == nil || len(l.Items) != 0 {
		t.Errorf("%s", r.out)
	}
}

func TestBreakerBudgetConfigCommands(t *testing.T) {
	f := operatortest.New()
	data := "--data=" + sidecar(t, f)
	r := command(t, data, "breaker", "list")
	r.want(t, exitOK)
	golden(t, "breaker-list.txt", r.out)
	command(t, data, "breaker", "force", "slack", "half-open", "-r", "vendor says so").want(t, exitOK, "half_open")
	command(t, data, "breaker", "force", "slakc", "open", "-r", "x").want(t, exitFailed, "no destination slakc")
	r = command(t, data, "budget", "show")
	r.want(t, exitOK)
	golden(t, "budget-show.txt", r.out)
	command(t, data, "config", "show").want(t, exitOK, "version sha256:0001")
	command(t, data, "config", "reload").want(t, exitOK, "in force")
	for _, args := range [][]string{{"breaker"}, {"budget"}, {"level"}, {"holds"}, {"config"}} {
		r := command(t, append([]string{data, "--json"}, args...)...)
		_ = decode[map[string]any](t, r.out)
	}
}

func TestNoSidecar(t *testing.T) {
	dir := shortDir(t)
	for _, args := range [][]string{{"level"}, {"holds"}, {"breaker"}, {"budget"}, {"config", "reload"}, {"level", "raise", "L3"}} {
		command(t, append([]string{"--data", dir}, args...)...).want(t, exitUnreachable, "no sidecar answers", "stoplog up")
	}
}

func TestStoreAway(t *testing.T) {
	f := operatortest.New()
	f.LogErr = errors.New("disk full")
	data := "--data=" + sidecar(t, f)
	command(t, data, "breaker", "force", "slack", "open", "-r", "x").want(t, exitFailed, "cannot be recorded")
	command(t, data, "level", "raise", "L3").want(t, exitOK, "fleet: L0 -> L3", "took no record")
}

// With --server the same commands go to the admin port, with the token of the data directory.
func TestAdminPort(t *testing.T) {
	f := operatortest.New()
	s := httptest.NewServer(operator.New(f.Deps()))
	defer s.Close()
	token := filepath.Join(t.TempDir(), "token")
	err := os.WriteFile(token, []byte(operatortest.Token+"\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	command(t, "--server", s.URL, "--token-file", token, "holds").want(t, exitOK, "op_1")
	command(t, "--server", s.URL, "--token-file", token, "level", "raise", "L1").want(t, exitOK)
	command(t, "--server", s.URL, "--token-file", token, "receipts", "tail").want(t, exitOK, "ctl.level", "actor=token:operator")
	command(t, "--server", s.URL, "--token-file", token, "explain", "0").want(t, exitOK, "ctl.level")
	wrong := filepath.Join(t.TempDir(), "wrong")
	_ = os.WriteFile(wrong, []byte(strings.Repeat("x", 40)), 0o600)
	command(t, "--server", s.URL, "--token-file", wrong, "holds").want(t, exitRefused, "needs the operator")
	command(t, "--server", s.URL, "--token-file", "/none", "holds").want(t, exitUsage)
}
