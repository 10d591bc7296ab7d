package configs

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/stoplog/stoplog/configs/configv1"
)

const (
	pollEvery = 2 * time.Second
	// A file is taken up only when it has stopped changing: one that is half written may well be valid.
	settleFor = 200 * time.Millisecond
)

// Watcher reloads a configuration when its files change. It polls: links that are swapped, network folders and editors
// that replace a file need no special case.
type Watcher struct {
	paths  []string
	notify func(*Snapshot, error)

	mu      sync.Mutex // held over a whole reload, callback included
	current *Snapshot
	tried   [32]byte // hash of the text that was last tried
}

// Watch loads the paths and keeps them for Run and Reload. notify is told of each change: the new snapshot, or why it was
// refused; then the last good one stays in force. It is not told of the first snapshot, which Current has. Calls of notify
// do not overlap, and it MUST NOT call the watcher.
func Watch(notify func(*Snapshot, error), paths ...string) (*Watcher, error) {
	w := &Watcher{paths: paths, notify: notify}
	files, err := readAll(paths)
	if err != nil {
		return nil, err
	}
	w.tried = hash(files)
	w.current, err = load(files)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// Current is the snapshot in force.
func (w *Watcher) Current() *Snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.current
}

// Run looks at the files every two seconds until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.look(ctx)
		}
	}
}

// look reloads when the text is another one than was last tried, and stays so for a moment.
func (w *Watcher) look(ctx context.Context) {
	first := w.fingerprint()
	w.mu.Lock()
	same := first == w.tried
	w.mu.Unlock()
	if same {
		return
	}
	select {
	case <-ctx.Done():
		return
	case <-time.After(settleFor):
	}
	if w.fingerprint() == first {
		_ = w.reload(first) // notify has been told
	}
}

// Reload reads the files now, whether they changed or not. It returns what notify was told.
func (w *Watcher) Reload() error { return w.reload(w.fingerprint()) }

func (w *Watcher) reload(seen [32]byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tried = seen
	files, err := readAll(w.paths)
	if err == nil {
		w.tried = hash(files)
	}
	var next *Snapshot
	if err == nil {
		next, err = load(files)
	}
	if err == nil {
		err = olderThan(w.current.bundle, next.bundle)
	}
	if err != nil {
		w.notify(nil, err)
		return err
	}
	w.current = next
	w.notify(next, nil)
	return nil
}

// fingerprint hashes names and text of all files. What cannot be read has a fingerprint too, so that it is told once.
func (w *Watcher) fingerprint() [32]byte {
	files, err := readAll(w.paths)
	if err != nil {
		return sha256.Sum256([]byte("unreadable " + err.Error()))
	}
	return hash(files)
}

func hash(files []file) [32]byte {
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%d %s %d ", len(f.name), f.name, len(f.data))
		h.Write(f.data)
	}
	return [32]byte(h.Sum(nil))
}

// olderThan refuses resources whose generation is lower than that of the one in force: they come from a stale source.
func olderThan(now, next *configv1.Bundle) error {
	var errs Errors
	errs = append(errs, older("destinations", now.GetDestinations(), next.GetDestinations())...)
	errs = append(errs, older("connector_profiles", now.GetConnectorProfiles(), next.GetConnectorProfiles())...)
	errs = append(errs, older("policies", now.GetPolicies(), next.GetPolicies())...)
	errs = append(errs, older("budgets", now.GetBudgets(), next.GetBudgets())...)
	errs = append(errs, older("price_tables", now.GetPriceTables(), next.GetPriceTables())...)
	errs = append(errs, older("kill_switches", now.GetKillSwitches(), next.GetKillSwitches())...)
	return errs.orNil()
}

func older[T interface {
	GetName() string
	GetMeta() *configv1.Meta
}](kind string, now, next []T) Errors {
	accepted := map[string]uint64{}
	for _, x := range now {
		accepted[x.GetName()] = x.GetMeta().GetGeneration()
	}
	var errs Errors
	for _, x := range next {
		g := x.GetMeta().GetGeneration()
		if g != 0 && g < accepted[x.GetName()] {
			errs = append(errs, &Error{
				Field:   fmt.Sprintf("%s[name=%s].meta.generation", kind, x.GetName()),
				Problem: fmt.Sprintf("%d is older than %d, which is in force", g, accepted[x.GetName()]),
				Mend:    "raise it to say that the older content is meant",
			})
		}
	}
	return errs
}
