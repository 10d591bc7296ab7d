package ledger_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/receipts"
	"github.com/stoplog/stoplog/receipts/disk/disktest"
	"github.com/stoplog/stoplog/receipts/ledger"
	"github.com/stoplog/stoplog/receipts/ledger/ledgertest"
	"github.com/stoplog/stoplog/receipts/segment"
	"github.com/stoplog/stoplog/receipts/vault"
)

// local is one process life over a disk in memory.
type local struct {
	*ledger.Local
	log *segment.Log
	m   *disktest.Memory
}

func openLocal(t testing.TB, m *disktest.Memory, o ledger.Options) (*local, error) {
	t.Helper()
	log, err := segment.Open(context.Background(), segment.Options{Dir: "/data", FS: m, SegmentBytes: 256 << 10})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = log.Close() })
	v, err := vault.Open(vault.Options{Dir: "/data", FS: m})
	if err != nil {
		return nil, err
	}
	l, err := ledger.Open(log, v, o)
	if err != nil {
		return nil, err
	}
	return &local{l, log, m}, nil
}

func mustOpen(t testing.TB, m *disktest.Memory, o ledger.Options) *local {
	t.Helper()
	l, err := openLocal(t, m, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLocal(t *testing.T) {
	ledgertest.Ledger(t, func(t *testing.T) ledgertest.Instance { return instance(t, disktest.New()) })
}

func instance(t *testing.T, m *disktest.Memory) ledgertest.Instance {
	l := mustOpen(t, m, ledger.Options{})
	return ledgertest.Instance{
		Ledger: l,
		Sweep:  func(now time.Time) error { return l.Sweep(context.Background(), now) },
		Crash:  func() ledgertest.Instance { return instance(t, m.Killed()) },
		Receipts: func(id stoplog.OperationID) []*receipts.Receipt {
			var list []*receipts.Receipt
			for e, err := range l.log.Reader().Select(context.Background(), receipts.Query{Operation: id}) {
				if err != nil {
					t.Error(err)
					break
				}
				list = append(list, e.Receipt)
			}
			return list
		},
	}
}

func proposal(l *local, n byte) ledger.Proposal {
	e := &stoplog.Effect{
		Class: stoplog.ClassMessage, Destination: "slack", Actor: stoplog.Actor{Tenant: "acme", Agent: "mailer"}, Digest: [32]byte{n},
	}
	return ledger.Proposal{
		ID: ledger.NewID(), Key: l.Key("acme", "slack", "mailer", fmt.Sprint(n)), KeyTTL: time.Hour, Effect: e,
		Exact: &stoplog.Exact{Method: "POST", Host: "slack.com", Target: "/api", Body: []byte{n}},
	}
}

func verify(t testing.TB, m *disktest.Memory) *receipts.Report {
	t.Helper()
	pub, err := m.ReadFile("test", "/data/identity.pub")
	if err != nil {
		t.Fatal(err)
	}
	r, err := receipts.VerifyFS(context.Background(), m.View("/data"), string(pub))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestKeysDoNotRunIntoEachOther(t *testing.T) {
	l := mustOpen(t, disktest.New(), ledger.Options{})
	if l.Key("a", "b", "c", "d") == l.Key("a", "bc", "", "d") || l.Key("a", "b", "c", "d") == l.DigestKey("a", "b", "c", "d", [32]byte{}) {
		t.Error("two keys are one")
	}
	if l.Key("a", "b", "c", "d") == mustOpen(t, disktest.New(), ledger.Options{}).Key("a", "b", "c", "d") {
		t.Error("two data directories share a secret")
	}
}

// Fail each disk operation of a life in turn. Whatever was acknowledged is there after the crash; whatever failed sent
// nothing; the log verifies.
func TestEveryFault(t *testing.T) {
	for _, errno := range []error{syscall.EIO, syscall.ENOSPC} {
		for k := 0; ; k++ {
			if done := faultAt(t, k, errno); done {
				break
			}
			if testing.Short() && k > 40 {
				break
			}
		}
	}
}

func faultAt(t *testing.T, k int, errno error) (done bool) {
	m := disktest.New()
	var mu sync.Mutex
	n := 0
	m.SetFault(func(op, _ string) error {
		if strings.HasPrefix(op, "view.") || strings.HasPrefix(op, "checkpoint.") {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if n++; n-1 == k {
			return errno
		}
		return nil
	})
	want := map[stoplog.OperationID]ledger.State{}
	l, err := openLocal(t, m, ledger.Options{})
	if err == nil {
		for i := range byte(4) {
			p := proposal(l, i)
			if i%2 == 0 {
				if _, err := l.Keep(t.Context(), p, ledger.Hold{Verdict: stoplog.Hold}, &receipts.Receipt{}); err == nil {
					want[p.ID] = ledger.Proposed
				}
			}
			if i == 2 {
				continue
			}
			if _, err := l.Begin(t.Context(), p, time.Now(), &receipts.Receipt{}); err != nil {
				continue
			}
			want[p.ID] = ledger.Unknown
			if err := l.Finish(t.Context(), p.ID, stoplog.OutcomeConfirmed, &stoplog.Answer{Status: 200}, &receipts.Receipt{}); err == nil {
				want[p.ID] = ledger.Confirmed
			}
		}
	}
	next := m.Killed()
	l, err = openLocal(t, next, ledger.Options{})
	if err != nil {
		t.Fatalf("%v at operation %d: %v", errno, k, err)
	}
	for id, state := range want {
		op, err := l.Get(t.Context(), id)
		// After a failed sync nothing is known: the step that failed may be there.
		if err != nil || op.State != state && !(state == ledger.Unknown && op.State == ledger.Confirmed) && !(state == ledger.Proposed && op.State == ledger.Unknown) {
			t.Errorf("%v at operation %d: %s is %s, %v; want %s", errno, k, id, op.State, err, state)
		}
	}
	if err := l.log.Close(); err != nil {
		t.Fatal(err)
	}
	if r := verify(t, next); r.Err() != nil {
		t.Fatalf("%v at operation %d: %v", errno, k, r.Err())
	}
	mu.Lock()
	defer mu.Unlock()
	return n <= k
}

// Without a durable record there is no effect, and the key stays free.
func TestNoRecordNoEffect(t *testing.T) {
	m := disktest.New()
	l := mustOpen(t, m, ledger.Options{})
	m.SetFault(func(op, _ string) error {
		if op == "segment.write" {
			return syscall.EIO
		}
		return nil
	})
	p := proposal(l, 1)
	_, err := l.Begin(t.Context(), p, time.Now(), &receipts.Receipt{})
	if stoplog.ReasonOf(err) != stoplog.ReasonEvidenceUnavailable {
		t.Errorf("got %v", err)
	}
	if _, ok, _ := l.Lookup(t.Context(), p.Key); ok {
		t.Error("an operation without a record")
	}
}

// Nothing that is secret is written anywhere but encrypted in the vault (BerriAI/litellm#35678, NousResearch/hermes-agent#50407).
func TestNoSecretsOnDisk(t *testing.T) {
	m := disktest.New()
	l := mustOpen(t, m, ledger.Options{})
	secrets := []string{"sk-live-secret", "c2VjcmV0LWJhc2lj", "token=hunter2", "sid=cookie-secret", "victim@example.com", "the-body-text"}
	p := proposal(l, 1)
	p.Effect.Recipients = []string{secrets[4]}
	p.Effect.Idempotency.Key = secrets[0]
	p.Key = l.Key("acme", "slack", "mailer", secrets[0])
	p.Exact.Target = "/api?" + secrets[2]
	p.Exact.Header = []stoplog.Field{{Name: "x-api-key", Value: secrets[0]}, {Name: "Authorization", Value: "Basic " + secrets[1]}}
	p.Exact.Body = []byte(secrets[5])
	if _, err := l.Keep(t.Context(), p, ledger.Hold{Verdict: stoplog.Hold}, &receipts.Receipt{}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Begin(t.Context(), p, time.Now(), &receipts.Receipt{}); err != nil {
		t.Fatal(err)
	}
	a := &stoplog.Answer{Status: 200, Header: []stoplog.Field{{Name: "Set-Cookie", Value: secrets[3]}}, Body: []byte(secrets[5])}
	if err := l.Finish(t.Context(), p.ID, stoplog.OutcomeConfirmed, a, &receipts.Receipt{}); err != nil {
		t.Fatal(err)
	}
	l.log.Close()
	for name, b := range m.Files("/data") {
		for _, s := range append(secrets, string(p.Effect.Digest[:])) {
			if bytes.Contains(b, []byte(s)) {
				t.Errorf("%s contains %q", name, s)
			}
		}
	}
}

func TestClosedAreBoundedAndExpire(t *testing.T) {
	now := time.Now()
	m := disktest.New()
	l := mustOpen(t, m, ledger.Options{MaxClosed: 5, Now: func() time.Time { return now }})
	var first ledger.Proposal
	for i := range byte(9) {
		p := proposal(l, i)
		p.KeyTTL = time.Duration(i+1) * time.Hour
		if i == 0 {
			first = p
		}
		if _, err := l.Begin(t.Context(), p, now, &receipts.Receipt{}); err != nil {
			t.Fatal(err)
		}
		if err := l.Finish(t.Context(), p.ID, stoplog.OutcomeConfirmed, &stoplog.Answer{Status: 200}, &receipts.Receipt{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Get(t.Context(), first.ID); stoplog.ReasonOf(err) != stoplog.ReasonNotFound {
		t.Errorf("the first is still known: %v", err)
	}
	known := func() (n int) {
		for i := range byte(9) {
			if _, ok, _ := l.Lookup(t.Context(), l.Key("acme", "slack", "mailer", fmt.Sprint(i))); ok {
				n++
			}
		}
		return n
	}
	if known() != 5 {
		t.Errorf("%d known, want 5", known())
	}
	now = now.Add(7*time.Hour + time.Second)
	if err := l.Sweep(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if known() != 2 {
		t.Errorf("%d known after 7 h, want 2", known())
	}
	answers := 0
	for name := range m.Files("/data/vault/bytes") {
		if strings.HasSuffix(name, ".ans") {
			answers++
		}
	}
	if answers != 2 {
		t.Errorf("%d answers are kept", answers)
	}
}

// Erasing the kept bytes leaves every proof valid and closes the commitments.
func TestEraseThenVerify(t *testing.T) {
	m := disktest.New()
	l := mustOpen(t, m, ledger.Options{})
	p := proposal(l, 1)
	op, err := l.Keep(t.Context(), p, ledger.Hold{Verdict: stoplog.Hold}, &receipts.Receipt{})
	if err != nil {
		t.Fatal(err)
	}
	l.log.Close()
	v, err := vault.Open(vault.Options{Dir: "/data", FS: m})
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Delete(p.ID); err != nil {
		t.Fatal(err)
	}
	leaf, proof, err := l.log.Reader().Prove(t.Context(), op.Receipt.Log, op.Receipt.Seq)
	if err != nil {
		t.Fatal(err)
	}
	pub, _ := m.ReadFile("test", "/data/identity.pub")
	if _, err := receipts.VerifyProof(string(pub), leaf, proof); err != nil {
		t.Error(err)
	}
	if r := verify(t, m); r.Err() != nil {
		t.Error(r.Err())
	}
	l = mustOpen(t, m.Killed(), ledger.Options{})
	if holds, _ := l.Holds(t.Context()); len(holds) != 1 {
		t.Error("a hold vanished with its bytes")
	}
	if _, err := l.Bytes(t.Context(), p.ID); stoplog.ReasonOf(err) != stoplog.ReasonNotFound {
		t.Errorf("got %v", err)
	}
}

func TestOrphansAreCollected(t *testing.T) {
	m := disktest.New()
	l := mustOpen(t, m, ledger.Options{})
	p := proposal(l, 1)
	if _, err := l.Keep(t.Context(), p, ledger.Hold{Verdict: stoplog.Hold}, &receipts.Receipt{}); err != nil {
		t.Fatal(err)
	}
	v, _ := vault.Open(vault.Options{Dir: "/data", FS: m})
	if err := v.Put(ledger.NewID(), &vault.Entry{Exact: *p.Exact}); err != nil {
		t.Fatal(err)
	}
	m = m.Killed()
	mustOpen(t, m, ledger.Options{Orphan: time.Nanosecond})
	files := m.Files("/data/vault/bytes")
	if len(files) != 1 || files[filepath.Join("/data/vault/bytes", string(p.ID)+".req")] == nil {
		t.Errorf("%d entries are left", len(files))
	}
}
