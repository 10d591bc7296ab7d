// Package operatortest has a sidecar's state in memory, for tests of the operator API and of the command line.
package operatortest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
	"github.com/stoplog/stoplog/admission/killswitch"
	"github.com/stoplog/stoplog/internal/operator"
	"github.com/stoplog/stoplog/receipts"
	"github.com/stoplog/stoplog/receipts/ledger"
)

// Start is when everything in a Fake happened.
var Start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// Fake is a sidecar's state. Its fields may be set before use; Calls says what was changed, in order, receipts included.
type Fake struct {
	mu       sync.Mutex
	Records  map[stoplog.Scope]killswitch.Record
	Breaker  []admission.BreakerView
	Balance  []admission.Balance
	Held     []ledger.Operation
	Written  []*receipts.Receipt
	Calls    []string
	LogErr   error // of Append
	StoreErr error // of Raise, Decide and Force
	Unproven error // of Verify
	// Before runs before a change reaches the store: where another process may come in between.
	Before func()
	// Result of a release; nil = sent and confirmed.
	Result func(stoplog.OperationID) (operator.ReleaseResult, error)

	epoch uint64
}

// New is a sidecar with one breaker, one budget and two kept effects.
func New() *Fake {
	f := &Fake{Records: map[stoplog.Scope]killswitch.Record{}}
	f.Breaker = []admission.BreakerView{{Destination: "slack", State: admission.BreakerOpen, Epoch: 3, Since: Start, RetryAt: Start.Add(30 * time.Second), Trips: 1, Fails: 12}}
	f.Balance = []admission.Balance{{Budget: "model-hourly", Key: "model-hourly/tenant/acme/2026-11-30T12", Unit: "usd_micro", Limit: 5_000_000, Used: 1_200_000, Held: 300_000, Ends: Start.Add(time.Hour)}}
	f.Held = []ledger.Operation{
		held("op_1", stoplog.ClassMessage, "slack", "chat.postMessage", Start, "ada@example.com"),
		held("op_2", stoplog.ClassWrite, "stripe", "charges.create", Start.Add(time.Second)),
	}
	return f
}

func held(id stoplog.OperationID, c stoplog.Class, destination, action string, at time.Time, to ...string) ledger.Operation {
	return ledger.Operation{
		ID: id, Digest: sha256.Sum256([]byte(id)), Created: at, Updated: at, State: ledger.Proposed,
		Effect: stoplog.Effect{Class: c, Action: action, Destination: destination, Recipients: to, Actor: stoplog.Actor{Tenant: "acme", Agent: "bot"}},
		Hold:   &ledger.Hold{Verdict: c.StoppedVerdict(), Reason: stoplog.ReasonWriteFreeze, Level: stoplog.L2, Expires: at.Add(48 * time.Hour), Bytes: 42},
	}
}

// Deps are the fake as the API's dependencies, with the token "secret-token-of-at-least-32-characters".
func (f *Fake) Deps() operator.Deps {
	return operator.Deps{
		Operate: f, Ledger: f, Receipts: f, Effects: f, Config: config{f}, Log: f, Token: Token, Version: "test",
		Verify: func(context.Context) error { return f.Unproven },
	}
}

// Token opens the API of a Fake on the admin port.
const Token = "secret-token-of-at-least-32-characters"

func (f *Fake) did(format string, args ...any) {
	f.Calls = append(f.Calls, fmt.Sprintf(format, args...))
}

// Levels makes Fake an admission.Operate.
func (f *Fake) Levels(context.Context) ([]killswitch.Entry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []killswitch.Entry
	for s, r := range f.Records {
		out = append(out, killswitch.Entry{Scope: s, Record: r})
	}
	return out, nil
}

// Raise issues the next epoch.
func (f *Fake) Raise(_ context.Context, s stoplog.Scope, r killswitch.Raise) (killswitch.Record, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.StoreErr != nil {
		return killswitch.Record{}, f.StoreErr
	}
	f.did("raise %s %s", s, r.Level)
	f.epoch++
	r.Epoch = f.epoch
	var x killswitch.Record
	x.Raises[r.Level] = r
	f.Records[s] = killswitch.Merge(f.Records[s], x)
	return f.Records[s], nil
}

// Decide issues the next epoch.
func (f *Fake) Decide(_ context.Context, s stoplog.Scope, d killswitch.Decision) (killswitch.Record, error) {
	if f.Before != nil {
		f.Before()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.StoreErr != nil {
		return killswitch.Record{}, f.StoreErr
	}
	f.did("decide %s %s", s, d.Level)
	f.epoch++
	d.Epoch = f.epoch
	f.Records[s] = killswitch.Merge(f.Records[s], killswitch.Record{Decision: d})
	return f.Records[s], nil
}

// Breakers lists them.
func (f *Fake) Breakers(context.Context) ([]admission.BreakerView, error) { return f.Breaker, nil }

// Force moves one.
func (f *Fake) Force(_ context.Context, destination, class string, to admission.BreakerState) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.StoreErr != nil {
		return f.StoreErr
	}
	f.did("force %s %q %s", destination, class, to)
	for i := range f.Breaker {
		if f.Breaker[i].Destination == destination {
			f.Breaker[i].State = to
		}
	}
	return nil
}

// Balances lists them.
func (f *Fake) Balances(context.Context) ([]admission.Balance, error) { return f.Balance, nil }

// Destinations have what is left of their limits.
func (f *Fake) Destinations(context.Context) ([]admission.DestinationView, error) {
	return []admission.DestinationView{{
		Destination: "slack", Tokens: 9, Seats: 1, SeatLimit: 32, Tenants: []admission.TenantView{{Tenant: "acme", Seats: 1, Weight: 1}},
	}}, nil
}

// Get finds a held operation.
func (f *Fake) Get(_ context.Context, id stoplog.OperationID) (ledger.Operation, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, op := range f.Held {
		if op.ID == id {
			return op, nil
		}
	}
	return ledger.Operation{}, stoplog.Refuse(stoplog.ReasonNotFound, "no operation "+string(id))
}

// Holds lists them.
func (f *Fake) Holds(context.Context) ([]ledger.Operation, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.Held), func(op ledger.Operation) bool { return op.Hold == nil }), nil
}

// Open lists none.
func (f *Fake) Open(context.Context) ([]ledger.Operation, error) { return nil, nil }

// Release sends, or does as Result says.
func (f *Fake) Release(_ context.Context, id stoplog.OperationID, by, reason string) (operator.ReleaseResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.did("release %s by %s: %s", id, by, reason)
	res := operator.ReleaseResult{Decision: stoplog.Allowed("store"), Sent: true, Outcome: stoplog.OutcomeConfirmed, Status: 200, Digest: sha256.Sum256([]byte(id))}
	if f.Result != nil {
		var err error
		res, err = f.Result(id)
		if err != nil {
			return res, err
		}
	}
	if res.Sent {
		f.end(id, ledger.Confirmed)
	}
	return res, nil
}

// Withdraw ends a hold.
func (f *Fake) Withdraw(ctx context.Context, id stoplog.OperationID, by, reason string) error {
	_, err := f.Get(ctx, id)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.did("withdraw %s by %s: %s", id, by, reason)
	f.end(id, ledger.Void)
	return nil
}

func (f *Fake) end(id stoplog.OperationID, s ledger.State) {
	for i := range f.Held {
		if f.Held[i].ID == id {
			f.Held[i].Hold, f.Held[i].State = nil, s
		}
	}
}

// config is the fake's configuration: its Destinations are the configured ones.
type config struct{ *Fake }

func (config) Version() string { return "sha256:0001" }

func (config) Dump() ([]byte, error) { return []byte("destinations: []\n"), nil }

func (config) Destinations() []operator.Destination {
	return []operator.Destination{{Name: "slack", Connector: "slack", URL: "https://slack.com", Local: "http://127.0.0.1:7070/slack"}}
}

func (c config) Reload(_ context.Context, by string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.did("reload by %s", by)
	return "sha256:0002", nil
}

// Append writes receipts in memory.
func (f *Fake) Append(_ context.Context, rs ...*receipts.Receipt) ([]receipts.Position, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.LogErr != nil {
		return nil, f.LogErr
	}
	var out []receipts.Position
	for _, r := range rs {
		r.Log, r.Seq, r.Time = "test.local/000001", int64(len(f.Written)), Start.Add(time.Duration(len(f.Written))*time.Second)
		f.Written = append(f.Written, r)
		f.did("receipt %s %s", r.Type, r.Note["action"])
		out = append(out, receipts.Position{Log: r.Log, Seq: r.Seq})
	}
	return out, nil
}

// Scan reads what was written.
func (f *Fake) Scan(_ context.Context, from operator.Cursor, keep func(*receipts.Receipt) bool, fn func(*receipts.Receipt) error) (operator.Cursor, error) {
	f.mu.Lock()
	list := slices.Clone(f.Written)
	f.mu.Unlock()
	for _, r := range list {
		if r.Seq < from.Seq {
			continue
		}
		from = operator.Cursor{Log: r.Log, Seq: r.Seq + 1}
		if keep != nil && !keep(r) {
			continue
		}
		err := fn(r)
		if err != nil {
			return from, err
		}
	}
	return from, nil
}
