package vault_test

import (
	"errors"
	"io/fs"
	"math/rand"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/receipts/disk/disktest"
	"github.com/stoplog/stoplog/receipts/vault"
)

const id = stoplog.OperationID("op_01890a5d-ac96-774b-bcce-b302099a8057") // June 2023

func open(t *testing.T, m *disktest.Memory) *vault.Vault {
	t.Helper()
	v, err := vault.Open(vault.Options{Dir: "/data", FS: m})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func entry() *vault.Entry {
	return &vault.Entry{
		Salt:   [32]byte{1},
		Effect: stoplog.Effect{Actor: stoplog.Actor{Tenant: "acme"}, Recipients: []string{"a"}},
		Exact: stoplog.Exact{
			Method: "POST", Host: "h", Target: "/%2e?q", Body: []byte("\x00\xff body"),
			Header: []stoplog.Field{{Name: "X", Value: "\xe9"}, {Name: "x", Value: ""}},
		},
	}
}

func TestPutIsDurable(t *testing.T) {
	for seed := range 200 {
		m := disktest.New()
		v := open(t, m)
		if err := v.Put(id, entry()); err != nil {
			t.Fatal(err)
		}
		_, _ = v.PutAnswer("op_other", "acme", &stoplog.Answer{Body: make([]byte, 3000)})
		v = open(t, m.PowerCut(rand.New(rand.NewSource(int64(seed)))))
		e, err := v.Get(id)
		if err != nil || cmp.Diff(entry(), e) != "" {
			t.Fatalf("seed %d: %v %s", seed, err, cmp.Diff(entry(), e))
		}
		a, err := v.Answer("op_other") // may be lost, never wrong
		if err == nil && len(a.Body) != 3000 || err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, vault.ErrAltered) {
			t.Fatalf("seed %d: %v, %v", seed, a, err)
		}
	}
}

// Any changed byte, another entry's file and another data directory's keys are found.
func TestAltered(t *testing.T) {
	m := disktest.New()
	v := open(t, m)
	if err := v.Put(id, entry()); err != nil {
		t.Fatal(err)
	}
	file := "/data/vault/bytes/" + string(id) + ".req"
	whole, _ := m.ReadFile("test", file)
	for i := range whole {
		m.Edit(file, func([]byte) []byte { b := append([]byte(nil), whole...); b[i] ^= 1; return b })
		if _, err := v.Get(id); err == nil {
			t.Fatalf("byte %d was changed unseen", i)
		}
		m.Edit(file, func([]byte) []byte { return append([]byte(nil), whole[:i]...) })
		if _, err := v.Get(id); !errors.Is(err, vault.ErrAltered) {
			t.Fatalf("cut at %d: %v", i, err)
		}
	}
	m.Edit(file, func([]byte) []byte { return whole })
	m.Rename("test", file, "/data/vault/bytes/op_x.req")
	if _, err := v.Get("op_x"); !errors.Is(err, vault.ErrAltered) {
		t.Errorf("another entry's file: %v", err)
	}
}

func TestSizeAndNames(t *testing.T) {
	v := open(t, disktest.New())
	e := entry()
	e.Exact.Body = make([]byte, 10<<20)
	if err := v.Put(id, e); err != nil {
		t.Errorf("10 MiB: %v", err)
	}
	e.Exact.Body = make([]byte, 10<<20+1)
	if err := v.Put(id, e); stoplog.ReasonOf(err) != stoplog.ReasonHoldTooLarge {
		t.Errorf("more: %v", err)
	}
	if kept, err := v.PutAnswer(id, "acme", &stoplog.Answer{Body: make([]byte, 1<<20)}); kept || err != nil {
		t.Errorf("a large answer: %v, %v", kept, err)
	}
	for _, bad := range []stoplog.OperationID{"", "../x", "a/b", "a.req", "a\x00"} {
		if err := v.Put(bad, entry()); err == nil {
			t.Errorf("%q is taken as an id", bad)
		}
	}
}

func TestErase(t *testing.T) {
	m := disktest.New()
	v := open(t, m)
	later := stoplog.OperationID("op_0198c1f0-0000-7000-8000-000000000001") // August 2025
	for _, id := range []stoplog.OperationID{id, later} {
		if err := v.Put(id, entry()); err != nil {
			t.Fatal(err)
		}
	}
	backup := m.Killed()
	if err := v.EraseMonth("2023-06"); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Get(id); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after its month: %v", err)
	}
	if _, err := v.Get(later); err != nil {
		t.Errorf("another month: %v", err)
	}
	if err := v.Delete(later); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Get(later); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after delete: %v", err)
	}
	if err := v.Delete(later); err != nil {
		t.Errorf("deleted twice: %v", err)
	}
	if _, err := open(t, backup).Get(id); err != nil {
		t.Errorf("a backup with its keys: %v", err)
	}
	m.Remove("test", "/data/vault/keys/root")
	if _, err := vault.Open(vault.Options{Dir: "/data", FS: m}); err == nil {
		t.Error("opened without its root key")
	}
}

func TestCollect(t *testing.T) {
	m := disktest.New()
	now := time.Now()
	v, err := vault.Open(vault.Options{Dir: "/data", FS: m, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []stoplog.OperationID{"op_a", "op_b"} {
		if err := v.Put(id, entry()); err != nil {
			t.Fatal(err)
		}
	}
	keep := func(id stoplog.OperationID) bool { return id == "op_a" }
	if n, err := v.Collect(time.Hour, keep); n != 0 || err != nil {
		t.Errorf("young: %d, %v", n, err)
	}
	now = now.Add(2 * time.Hour)
	if n, err := v.Collect(time.Hour, keep); n != 1 || err != nil {
		t.Errorf("old: %d, %v", n, err)
	}
	if _, err := v.Get("op_a"); err != nil {
		t.Error(err)
	}
}

func TestCommitters(t *testing.T) {
	m := disktest.New()
	commit := func(m *disktest.Memory, id stoplog.OperationID, label string) string {
		c, err := open(t, m).Committer(id)
		if err != nil {
			t.Fatal(err)
		}
		return c.Commit(label, []byte("hello"))
	}
	a := commit(m, id, "req")
	if a != commit(m, id, "req") {
		t.Error("not the same within one operation")
	}
	if a == commit(m, "op_other", "req") || a == commit(m, id, "resp") || a == commit(disktest.New(), id, "req") {
		t.Error("comparable across operations, labels or directories")
	}
}
