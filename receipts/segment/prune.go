package segment

import (
	"context"
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/stoplog/stoplog/receipts"
)

// Prune removes whole logs of earlier lives, oldest first, whose newest record is older than before. keep, if not nil, is
// asked with each log's origin; the first log that must be kept ends the pruning, since only a prefix of the chain may
// go. Each removal leaves a log.prune record that names the log, its size and root, durable before the first file goes.
func (l *Log) Prune(ctx context.Context, before time.Time, keep func(origin string) bool) (removed int, err error) {
	names, err := incarnations(l.fs, l.dir)
	if err != nil {
		return 0, err
	}
	l.mu.Lock()
	current := l.life.name
	l.mu.Unlock()
	for _, name := range names {
		if name == current {
			break
		}
		b, newest, err := l.summary(ctx, name)
		if err != nil {
			return removed, fmt.Errorf("pruning %s: %w", name, err)
		}
		if !newest.Before(before) || keep != nil && keep(b.origin) {
			break
		}
		_, err = l.Append(ctx, &receipts.Receipt{Type: receipts.TypeLogPrune, Note: map[string]string{
			receipts.NoteLog:  b.origin,
			receipts.NoteSize: strconv.FormatInt(b.size, 10),
			receipts.NoteRoot: base64.StdEncoding.EncodeToString(b.root[:]),
		}})
		if err != nil {
			return removed, err
		}
		err = l.fs.Rename("log.prune", filepath.Join(l.dir, name), filepath.Join(l.dir, name+prunedSuffix))
		if err != nil {
			return removed, err
		}
		err = l.removeLife(name + prunedSuffix)
		if err != nil {
			return removed, err
		}
		removed++
	}
	return removed, nil
}

// summary reads a finished log: its size, root and the time of its newest record.
func (l *Log) summary(ctx context.Context, name string) (before, time.Time, error) {
	b, err := l.recoverLife(name)
	if err != nil {
		return b, time.Time{}, err
	}
	var newest time.Time
	for e, err := range l.Reader().Log(ctx, b.origin) {
		if err != nil {
			return b, newest, err
		}
		newest = e.Receipt.Time
	}
	return b, newest, nil
}

func (l *Log) removeLife(name string) error {
	dir := filepath.Join(l.dir, name)
	list, err := l.fs.ReadDir("log.list", dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		err := l.fs.Remove("log.remove", filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
	}
	return l.fs.Remove("log.remove", dir)
}

// finishPruning removes what a crash left of logs whose removal was recorded.
func (l *Log) finishPruning() error {
	list, err := l.fs.ReadDir("log.list", l.dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		if strings.HasSuffix(e.Name(), prunedSuffix) {
			err := l.removeLife(e.Name())
			if err != nil {
				return err
			}
		}
	}
	return nil
}
