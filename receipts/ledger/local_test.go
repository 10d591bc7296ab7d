package ledger_test

import (
	"testing"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/receipts"
	"github.com/stoplog/stoplog/receipts/ledger"
	"github.com/stoplog/stoplog/receipts/segment"
	"github.com/stoplog/stoplog/receipts/vault"
)

func TestSmoke(t *testing.T) {
	dir := t.TempDir()
	open := func() (*segment.Log, *ledger.Local) {
		log, err := segment.Open(t.Context(), segment.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		v, err := vault.Open(vault.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		l, err := ledger.Open(log, v, ledger.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return log, l
	}
	log, l := open()
	e := &stoplog.Effect{Class: stoplog.ClassWrite, Destination: "stripe", Actor: stoplog.Actor{Tenant: "t", Agent: "a"}, Digest: [32]byte{7}}
	id := ledger.NewID()
	p := ledger.Proposal{ID: id, Key: l.Key("t", "stripe", "a", "k1"), KeyTTL: time.Hour, Effect: e}
	_, err := l.Begin(t.Context(), p, time.Now().Add(time.Minute), &receipts.Receipt{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Finish(t.Context(), id, stoplog.OutcomeConfirmed, &stoplog.Answer{Status: 200, Body: []byte("ok")}, &receipts.Receipt{}); err != nil {
		t.Fatal(err)
	}
	p2 := p
	p2.ID, p2.Key = ledger.NewID(), l.Key("t", "stripe", "a", "k2")
	if _, err := l.Begin(t.Context(), p2, time.Now().Add(time.Minute), &receipts.Receipt{}); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	log, l = open()
	op, ok, err := l.Lookup(t.Context(), p.Key)
	t.Log(op, ok, err)
	a, err := l.Answer(t.Context(), id)
	t.Log(a, err)
	ops, _ := l.Open(t.Context())
	t.Log(ops)
	log.Close()
	for e, err := range receipts.OpenReader(dir).Select(t.Context(), receipts.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		t.Log(string(e.Leaf))
	}
}
