package memory

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission/killswitch"
)

// automation begins the names of actors that are not people.
const automation = "automation:"

// Level implements admission.Store.
func (s *Store) Level(scopes []stoplog.Scope) (stoplog.Level, error) {
	return s.levels.Load().Level(scopes), nil
}

// LevelChanged implements admission.Store. Fetch the channel before looking at the level: a change between the two then
// wakes the caller.
func (s *Store) LevelChanged() <-chan struct{} { return *s.changed.Load() }

// Levels implements admission.Operate.
func (s *Store) Levels(context.Context) ([]killswitch.Entry, error) {
	return s.levels.Load().Entries(), nil
}

// Warning says what is wrong with the level file; nil = nothing. The store goes on, but an operator must know.
func (s *Store) Warning() error {
	s.operating.Lock()
	defer s.operating.Unlock()
	return s.warning
}

// Raise implements admission.Operate. The level binds the next claim even if it cannot be written to the file; the error
// then says that a restart would forget it.
func (s *Store) Raise(_ context.Context, scope stoplog.Scope, r killswitch.Raise) (killswitch.Record, error) {
	if r.Level < stoplog.L1 || r.Level > stoplog.L3 {
		return killswitch.Record{}, stoplog.Refuse(stoplog.ReasonInternal, "a raise is to L1, L2 or L3")
	}
	if r.Actor == "" {
		return killswitch.Record{}, stoplog.Refuse(stoplog.ReasonOperatorOnly, "a raise names its actor")
	}
	return s.change(scope, func(old killswitch.Record, epoch uint64, at time.Time) (killswitch.Record, error) {
		r.Epoch, r.At = epoch, at
		next := killswitch.Record{}
		next.Raises[r.Level] = r
		return killswitch.Merge(old, next), nil
	})
}

// Decide implements admission.Operate. Automation is refused, and so is an answer to raises that do not exist yet: it would
// lower what nobody has seen. A lowering counts only once it is in the file.
func (s *Store) Decide(_ context.Context, scope stoplog.Scope, d killswitch.Decision) (killswitch.Record, error) {
	if d.Actor == "" || strings.HasPrefix(d.Actor, automation) {
		return killswitch.Record{}, stoplog.Refuse(stoplog.ReasonOperatorOnly, "a decision is a person's: automation may only raise")
	}
	if d.Level > stoplog.L3 {
		return killswitch.Record{}, stoplog.Refuse(stoplog.ReasonInternal, "a decision is for L0, L1, L2 or L3")
	}
	return s.change(scope, func(old killswitch.Record, epoch uint64, at time.Time) (killswitch.Record, error) {
		if d.Acked > old.Epoch() {
			return old, stoplog.Refuse(stoplog.ReasonInternal, "the decision answers raises that this scope has not had")
		}
		d.Epoch, d.At = epoch, at
		return killswitch.Merge(old, killswitch.Record{Decision: d}), nil
	})
}

// Merge joins records that came another way (a control plane, receipts, a second store). What they lower, a person has
// lowered there. A record that is malformed is refused, and with it all that follow.
func (s *Store) Merge(entries []killswitch.Entry) error {
	for _, e := range entries {
		err := e.Record.Check()
		if err != nil {
			return fmt.Errorf("level record of %s: %w", e.Scope, err)
		}
		_, err = s.change(e.Scope, func(old killswitch.Record, _ uint64, _ time.Time) (killswitch.Record, error) {
			return killswitch.Merge(old, e.Record), nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// change makes one record's next version, writes it and puts it in force: what tightens first in force, what loosens first
// in the file, so that no crash in between lowers a level.
func (s *Store) change(
	scope stoplog.Scope, next func(old killswitch.Record, epoch uint64, at time.Time) (killswitch.Record, error),
) (killswitch.Record, error) {
	_, err := stoplog.ParseScope(string(scope))
	if err != nil {
		return killswitch.Record{}, err
	}
	s.operating.Lock()
	record, told, err := s.changeLocked(scope, next)
	s.operating.Unlock()
	if told && s.options.OnLevel != nil {
		s.options.OnLevel(killswitch.Entry{Scope: scope, Record: record})
	}
	return record, err
}

func (s *Store) changeLocked(
	scope stoplog.Scope, next func(old killswitch.Record, epoch uint64, at time.Time) (killswitch.Record, error),
) (record killswitch.Record, told bool, err error) {
	table := s.levels.Load()
	old := table.Record(scope)
	at := s.options.Now().Round(0).UTC()
	record, err = next(old, nextEpoch(table, at), at)
	if err != nil {
		return old, false, err
	}
	then := table.With(killswitch.Entry{Scope: scope, Record: record})
	if then == table {
		return old, false, nil
	}
	tightens := record.Level() >= old.Level()
	if tightens {
		s.enforce(then)
	}
	err = s.saveLevels(then)
	if !tightens {
		if err != nil {
			return old, false, err
		}
		s.enforce(then)
	}
	return record, true, err
}

// enforce puts a table in force. The lock makes a claim see the level either before its judgement or not at all: once
// Raise has returned, every later claim is judged by it.
func (s *Store) enforce(t *killswitch.Table) {
	s.mu.Lock()
	s.levels.Store(t)
	s.mu.Unlock()
	fresh := make(chan struct{})
	close(*s.changed.Swap(&fresh))
}

// nextEpoch is greater than every epoch that this store has seen, also across restarts and clock steps.
func nextEpoch(t *killswitch.Table, at time.Time) uint64 {
	return max(t.Epoch()+1, uint64(max(at.UnixMicro(), 0)))
}
