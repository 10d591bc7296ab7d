package killswitch

import (
	"cmp"
	"maps"
	"slices"

	"github.com/stoplog/stoplog"
)

// Table is the record of every scope at one moment. It is immutable: With makes a new one, so that a reader needs no lock
// and a judgement sees one version. The nil Table is version 0, every scope at L0.
type Table struct {
	records map[stoplog.Scope]Record
	version uint64
	newest  uint64
	highest stoplog.Level
}

// Version grows with every change.
func (t *Table) Version() uint64 {
	if t == nil {
		return 0
	}
	return t.version
}

// Epoch is the newest epoch of any record.
func (t *Table) Epoch() uint64 {
	if t == nil {
		return 0
	}
	return t.newest
}

// Level is the effective level of an effect that falls under all of scopes: the strictest one.
func (t *Table) Level(scopes []stoplog.Scope) stoplog.Level {
	if t == nil || t.highest == stoplog.L0 { // the usual case costs no look-up
		return stoplog.L0
	}
	l := stoplog.L0
	for _, s := range scopes {
		l = max(l, t.records[s].Level())
	}
	return l
}

// Record is the record of one scope; the zero Record if it has none.
func (t *Table) Record(s stoplog.Scope) Record {
	if t == nil {
		return Record{}
	}
	return t.records[s]
}

// With is the table with entries merged in. It is t itself if they bring nothing new.
func (t *Table) With(entries ...Entry) *Table {
	next := &Table{version: t.Version(), newest: t.Epoch()}
	if t != nil {
		next.records = maps.Clone(t.records)
	}
	if next.records == nil {
		next.records = make(map[stoplog.Scope]Record, len(entries))
	}
	changed := false
	for _, e := range entries {
		had := next.records[e.Scope]
		merged := Merge(had, e.Record)
		if merged != had {
			next.records[e.Scope], changed = merged, true
		}
	}
	if !changed {
		return t
	}
	for _, r := range next.records {
		next.newest = max(next.newest, r.Epoch())
		next.highest = max(next.highest, r.Level())
	}
	next.version = max(next.version+1, next.newest)
	return next
}

// Entries are all records, ordered by scope.
func (t *Table) Entries() []Entry {
	if t == nil {
		return nil
	}
	all := make([]Entry, 0, len(t.records))
	for s, r := range t.records {
		all = append(all, Entry{Scope: s, Record: r})
	}
	slices.SortFunc(all, func(a, b Entry) int { return cmp.Compare(a.Scope, b.Scope) })
	return all
}
