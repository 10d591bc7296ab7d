package app

import (
	"context"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/internal/operator"
)

func (a *App) operatorDeps() operator.Deps {
	return operator.Deps{
		Operate: a.store, Ledger: a.ledger, Receipts: operator.Files(a.boot.DataDir), Effects: effects{a}, Config: configView{a}, Log: a.receipts,
		Verify: a.verify, Token: a.token, Version: a.options.Version,
	}
}

// effects moves held effects through the proxy's own way.
type effects struct{ a *App }

func (e effects) Release(ctx context.Context, id stoplog.OperationID, by, reason string) (operator.ReleaseResult, error) {
	op, err := e.a.ledger.Get(ctx, id)
	if err != nil {
		return operator.ReleaseResult{}, err
	}
	r, err := e.a.handler.Release(ctx, id, by, reason)
	if err != nil {
		return operator.ReleaseResult{}, err
	}
	out := operator.ReleaseResult{Decision: r.Decision, Status: r.Status, Digest: op.Digest}
	if after, err := e.a.ledger.Get(ctx, r.Operation); err == nil {
		out.Sent, out.Outcome = after.Attempt > 0, after.Outcome
	}
	return out, nil
}

func (e effects) Withdraw(ctx context.Context, id stoplog.OperationID, by, reason string) error {
	return e.a.handler.Withdraw(ctx, id, by, reason)
}

// configView is the configuration in force.
type configView struct{ a *App }

func (c configView) Version() string { return c.a.Snapshot().Version() }

func (c configView) Dump() ([]byte, error) { return c.a.Snapshot().JSON() }

func (c configView) Destinations() []operator.Destination {
	var out []operator.Destination
	for _, d := range c.a.Snapshot().Destinations() {
		out = append(out, operator.Destination{Name: d.Name, Connector: d.Connector, URL: d.URL.String(), Local: c.a.URL(d.Name), Bound: c.a.BoundURL(d.Name)})
	}
	return out
}

func (c configView) Reload(_ context.Context, by string) (string, error) {
	if err := c.a.reload(by); err != nil {
		return "", err
	}
	return c.Version(), nil
}
