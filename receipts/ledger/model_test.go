package ledger_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/receipts"
	"github.com/stoplog/stoplog/receipts/disk/disktest"
	"github.com/stoplog/stoplog/receipts/ledger"
)

// Random histories with crashes against a model of one map: the ledger and the log never disagree with it, and no key is
// dispatched twice unless the first had no effect.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := disktest.New()
		l := mustOpen(t, m, ledger.Options{})
		type op struct {
			p     ledger.Proposal
			state ledger.State
			free  bool // ended without effect: proven not sent, or rejected
			tries int
		}
		byKey := map[byte]*op{}
		rt.Repeat(map[string]func(*rapid.T){
			"begin": func(rt *rapid.T) {
				k := rapid.ByteRange(0, 5).Draw(rt, "key")
				o, p := byKey[k], proposal(l, k)
				if o != nil && o.state == ledger.Proposed {
					p = o.p
				}
				_, err := l.Begin(context.Background(), p, time.Now(), &receipts.Receipt{})
				free := o == nil || o.state == ledger.Proposed || o.free
				if (err == nil) != free {
					rt.Fatalf("begin with key %d: %v", k, err)
				}
				if err == nil {
					byKey[k] = &op{p: p, state: ledger.Dispatching, tries: 1}
				}
			},
			"attempt": func(rt *rapid.T) {
				o := byKey[rapid.ByteRange(0, 5).Draw(rt, "key")]
				if o == nil {
					return
				}
				err := l.Attempt(context.Background(), o.p.ID, o.tries+1, time.Now(), &receipts.Receipt{})
				if (err == nil) != (o.state == ledger.Dispatching) {
					rt.Fatalf("attempt in %s: %v", o.state, err)
				}
				if err == nil {
					o.tries++
				}
			},
			"finish": func(rt *rapid.T) {
				o := byKey[rapid.ByteRange(0, 5).Draw(rt, "key")]
				if o == nil {
					return
				}
				out := stoplog.Outcome(rapid.IntRange(0, 3).Draw(rt, "outcome"))
				err := l.Finish(context.Background(), o.p.ID, out, nil, &receipts.Receipt{})
				next := map[stoplog.Outcome]ledger.State{
					stoplog.OutcomeUnknown: ledger.Unknown, stoplog.OutcomeNotSent: ledger.Void,
					stoplog.OutcomeConfirmed: ledger.Confirmed, stoplog.OutcomeRejected: ledger.Confirmed,
				}[out]
				ended := o.state == ledger.Confirmed || o.state == ledger.Void
				switch o.state {
				case ledger.Dispatching:
					o.state = next
				case ledger.Unknown:
					if next == ledger.Void {
						if err == nil {
							rt.Fatal("an unknown effect became unsent")
						}
						return
					}
					o.state = next
				case ledger.Proposed:
					if err == nil {
						rt.Fatal("a held effect ended without an intent")
					}
					return
				}
				if err != nil {
					rt.Fatalf("finish: %v", err)
				}
				if !ended {
					o.free = out == stoplog.OutcomeNotSent || out == stoplog.OutcomeRejected
				}
			},
			"keep": func(rt *rapid.T) {
				k := rapid.ByteRange(0, 5).Draw(rt, "key")
				if byKey[k] != nil {
					return
				}
				p := proposal(l, k)
				_, err := l.Keep(context.Background(), p, ledger.Hold{Verdict: stoplog.Hold, Expires: time.Now().Add(time.Hour)}, &receipts.Receipt{})
				if err != nil {
					rt.Fatal(err)
				}
				byKey[k] = &op{p: p, state: ledger.Proposed}
			},
			"withdraw": func(rt *rapid.T) {
				o := byKey[rapid.ByteRange(0, 5).Draw(rt, "key")]
				if o == nil {
					return
				}
				err := l.Withdraw(context.Background(), o.p.ID, &receipts.Receipt{})
				if (err == nil) != (o.state == ledger.Proposed) {
					rt.Fatalf("withdraw in %s: %v", o.state, err)
				}
				if err == nil {
					o.state = ledger.Void
				}
			},
			"crash": func(rt *rapid.T) {
				m = m.Killed()
				_ = l.log.Close()
				l = mustOpen(t, m, ledger.Options{})
				for _, o := range byKey {
					if o.state == ledger.Dispatching {
						o.state = ledger.Unknown
					}
				}
			},
			"": func(rt *rapid.T) {
				open, held := 0, 0
				for k, o := range byKey {
					got, err := l.Get(context.Background(), o.p.ID)
					if err != nil || got.State != o.state || got.State == ledger.Dispatching && got.Attempt != o.tries {
						rt.Fatalf("key %d: got %s, %v, want %s", k, got.State, err, o.state)
					}
					switch o.state {
					case ledger.Proposed:
						held++
					case ledger.Dispatching, ledger.Unknown:
						open++
					}
				}
				a, _ := l.Open(context.Background())
				b, _ := l.Holds(context.Background())
				if fmt.Sprint(len(a), len(b)) != fmt.Sprint(open, held) {
					rt.Fatalf("%d open, %d held; want %d, %d", len(a), len(b), open, held)
				}
			},
		})
		_ = l.log.Close()
		if r := verify(t, m); r.Err() != nil {
			rt.Fatal(r.Err())
		}
	})
}
