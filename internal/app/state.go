package app

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
	"github.com/stoplog/stoplog/receipts"
	"github.com/stoplog/stoplog/receipts/ledger"
	"github.com/stoplog/stoplog/receipts/segment"
	"github.com/stoplog/stoplog/receipts/vault"
)

func init() {
	// Ids need not be secret, only unique: random bytes are drawn in lots.
	uuid.EnableRandPool()
}

// newID makes ids that sort by time: "op_0190…".
func newID(prefix string) string {
	id, err := uuid.NewV7()
	if err != nil {
		id = uuid.New()
	}
	return prefix + "_" + strings.ReplaceAll(id.String(), "-", "")
}

// openRecords opens the vault, the log and the ledger over both.
func (a *App) openRecords(ctx context.Context, dir string) error {
	v, err := vault.Open(vault.Options{Dir: dir})
	if err != nil {
		return err
	}
	a.receipts, err = segment.Open(ctx, segment.Options{Dir: dir, Build: a.options.Version})
	if err != nil {
		return err
	}
	a.ledger, err = ledger.Open(a.receipts, v, ledger.Options{}) //nolint:contextcheck // the ledger is rebuilt whole or not at all
	if err != nil {
		return fmt.Errorf("open the ledger: %w", err)
	}
	return nil
}

// committer makes commitments of one operation. When its salt cannot be had, the commitments are made with one that nobody
// keeps: they prove nothing then, but they hide what they should.
func (a *App) committer(id stoplog.OperationID) receipts.Committer {
	c, err := a.ledger.Committer(id)
	if err != nil {
		a.metrics.failures.WithLabelValues("make a commitment").Inc()
		a.log.Error("make a commitment", "error", err)
		var salt [32]byte
		_, _ = rand.Read(salt[:]) // never fails (crypto/rand)
		return receipts.NewCommitter(salt)
	}
	return c
}

// restoreSpend rebuilds what was spent in periods that are still open, so that a restart gives nobody a fresh budget
// (spoo-me/spoo#324). What was reserved and never settled counts as spent. A month is the longest period.
func (a *App) restoreSpend(ctx context.Context) error {
	type line struct {
		balance admission.Balance
		amount  int64
	}
	lines := map[string]*line{}
	since := time.Now().AddDate(0, -1, -1)
	q := receipts.Query{Since: since, Match: func(leaf []byte) bool { return strings.Contains(string(leaf), `"bud":`) }}
	for e, err := range a.receipts.Reader().Select(ctx, q) {
		if err != nil {
			return fmt.Errorf("rebuild budgets from the receipts: %w", err)
		}
		r := e.Receipt
		for _, b := range r.Budgets {
			id := fmt.Sprintf("%s/%d/%s", r.Operation, r.Attempt, b.Key)
			l := lines[id]
			if l == nil {
				l = &line{balance: admission.Balance{Budget: b.Budget, Key: b.Key, Unit: b.Unit, Limit: b.Limit}}
				lines[id] = l
			}
			l.amount = b.Reserved
			if b.Actual >= 0 {
				l.amount = b.Actual
			}
		}
	}
	sum := map[string]*admission.Balance{}
	for _, l := range lines {
		b := sum[l.balance.Key]
		if b == nil {
			b = &l.balance
			sum[b.Key] = b
		}
		b.Used += l.amount
	}
	out := make([]admission.Balance, 0, len(sum))
	for _, b := range sum {
		out = append(out, *b)
	}
	a.store.Restore(out)
	return nil
}

// Receipts are all receipts that are durable now, oldest first.
func (a *App) Receipts(ctx context.Context) ([]*receipts.Receipt, error) {
	var out []*receipts.Receipt
	for e, err := range a.receipts.Reader().Select(ctx, receipts.Query{}) {
		if err != nil {
			return nil, err
		}
		out = append(out, e.Receipt)
	}
	return out, nil
}

// verify proves the log from its files, with the identity that this data directory pins.
func (a *App) verify(ctx context.Context) error {
	key, err := os.ReadFile(filepath.Join(a.boot.DataDir, "identity.pub"))
	if err != nil {
		return fmt.Errorf("read the log's identity: %w", err)
	}
	report, err := receipts.Verify(ctx, a.boot.DataDir, strings.TrimSpace(string(key)))
	if err != nil {
		return err
	}
	return report.Err()
}
