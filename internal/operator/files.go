package operator

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/stoplog/stoplog/receipts"
)

// Files reads receipts from a data directory, also while no sidecar runs.
func Files(dir string) Receipts { return files{receipts.OpenReader(dir)} }

type files struct{ r *receipts.Reader }

func (f files) Scan(ctx context.Context, from Cursor, keep func(*receipts.Receipt) bool, fn func(*receipts.Receipt) error) (Cursor, error) {
	logs, err := f.r.Logs()
	if errors.Is(err, fs.ErrNotExist) { // nothing was ever recorded here
		return from, nil
	}
	if err != nil {
		return from, err
	}
	for _, log := range logs[max(slices.Index(logs, from.Log), 0):] {
		q := receipts.Query{Log: log}
		if log == from.Log {
			q.From = from.Seq
		}
		for e, err := range f.r.Select(ctx, q) {
			if err != nil {
				return from, err
			}
			from = Cursor{Log: log, Seq: e.Receipt.Seq + 1}
			if keep != nil && !keep(e.Receipt) {
				continue
			}
			err = fn(e.Receipt)
			if err != nil {
				return from, err
			}
		}
	}
	return from, nil
}
