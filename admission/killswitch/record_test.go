package killswitch_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission/killswitch"
)

// Few values, so that ties are common.
var (
	level  = rapid.Custom(func(t *rapid.T) stoplog.Level { return stoplog.Level(rapid.IntRange(0, 3).Draw(t, "level")) })
	epoch  = rapid.Uint64Range(1, 5)
	actor  = rapid.SampledFrom([]string{"user:alice", "user:bob", "automation:x"})
	at     = rapid.Custom(func(t *rapid.T) time.Time { return time.Unix(rapid.Int64Range(0, 2).Draw(t, "at"), 0).UTC() })
	record = rapid.Custom(func(t *rapid.T) killswitch.Record {
		var r killswitch.Record
		if rapid.Bool().Draw(t, "decided") {
			e := epoch.Draw(t, "epoch")
			r.Decision = killswitch.Decision{
				Level: level.Draw(t, "level"), Epoch: e, Acked: rapid.Uint64Range(0, e-1).Draw(t, "acked"),
				Actor: actor.Draw(t, "actor"), Reason: actor.Draw(t, "reason"), At: at.Draw(t, "at"),
			}
		}
		for l := stoplog.L1; l <= stoplog.L3; l++ {
			if rapid.Bool().Draw(t, "raised") {
				r.Raises[l] = killswitch.Raise{
					Level: l, Epoch: epoch.Draw(t, "epoch"), Actor: actor.Draw(t, "actor"), Reason: actor.Draw(t, "reason"), At: at.Draw(t, "at"),
				}
			}
		}
		if err := r.Check(); err != nil {
			t.Fatal(err)
		}
		return r
	})
)

func TestCheck(t *testing.T) {
	raise := func(at int, r killswitch.Raise) (x killswitch.Record) {
		x.Raises[at] = r
		return x
	}
	for name, r := range map[string]killswitch.Record{
		"a decision without an epoch":  {Decision: killswitch.Decision{Actor: "user:alice"}},
		"a decision of the last epoch": {Decision: killswitch.Decision{Epoch: 1<<64 - 1}},
		"an answer to the future":      {Decision: killswitch.Decision{Epoch: 5, Acked: 5}},
		"a decision for L4":            {Decision: killswitch.Decision{Epoch: 5, Level: 4}},
		"a raise in another's place":   raise(1, killswitch.Raise{Level: 2, Epoch: 1}),
		"a raise to L0":                raise(0, killswitch.Raise{Epoch: 1}),
		"a raise without an epoch":     raise(1, killswitch.Raise{Level: 1}),
		"a raise of the last epoch":    raise(1, killswitch.Raise{Level: 1, Epoch: 1<<64 - 1}),
	} {
		if r.Check() == nil {
			t.Errorf("%s passes", name)
		}
	}
}

func same(t *rapid.T, what string, a, b killswitch.Record) {
	t.Helper()
	if diff := cmp.Diff(a, b); diff != "" {
		t.Fatalf("%s:\n%s", what, diff)
	}
}

// Copies of a record may meet in any order, any number of times, by any road.
func TestMergeIsAJoin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := record.Draw(t, "a"), record.Draw(t, "b"), record.Draw(t, "c")
		same(t, "idempotent", killswitch.Merge(a, a), a)
		same(t, "commutative", killswitch.Merge(a, b), killswitch.Merge(b, a))
		same(t, "associative", killswitch.Merge(a, killswitch.Merge(b, c)), killswitch.Merge(killswitch.Merge(a, b), c))
		same(t, "absorbing", killswitch.Merge(killswitch.Merge(a, b), b), killswitch.Merge(a, b))
		same(t, "zero is neutral", killswitch.Merge(a, killswitch.Record{}), a)
	})
}

func TestMergeInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(record, 1, 8).Draw(t, "records")
		want := killswitch.Record{}
		for _, r := range all {
			want = killswitch.Merge(want, r)
		}
		got := killswitch.Record{}
		for _, i := range rapid.Permutation(append(indexes(len(all)), indexes(len(all))...)).Draw(t, "order") {
			got = killswitch.Merge(got, all[i])
		}
		same(t, "each twice, in another order", got, want)
	})
}

func indexes(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

// Whatever raises automation adds, to whatever record, no level falls.
func TestRaisesNeverLower(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := record.Draw(t, "record")
		added := record.Draw(t, "raises")
		added.Decision = killswitch.Decision{}
		if got := killswitch.Merge(r, added).Level(); got < r.Level() {
			t.Fatalf("%s became %s", r.Level(), got)
		}
	})
}

// A raise that a decision has not seen survives it, in either order of arrival.
func TestUnseenRaiseSurvives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seen := record.Draw(t, "record")
		decision := killswitch.Record{Decision: killswitch.Decision{Epoch: seen.Epoch() + 2, Acked: seen.Epoch(), Actor: "user:alice"}}
		var unseen killswitch.Record
		l := stoplog.Level(rapid.IntRange(1, 3).Draw(t, "level"))
		unseen.Raises[l] = killswitch.Raise{Level: l, Epoch: seen.Epoch() + 1}
		got := killswitch.Merge(killswitch.Merge(seen, decision), unseen)
		same(t, "order", got, killswitch.Merge(killswitch.Merge(seen, unseen), decision))
		if got.Level() != l {
			t.Fatalf("level %s, want %s", got.Level(), l)
		}
		if without := killswitch.Merge(seen, decision).Level(); without != stoplog.L0 {
			t.Fatalf("all was seen, but the level is %s", without)
		}
	})
}

func TestTable(t *testing.T) {
	var none *killswitch.Table
	if none.Level([]stoplog.Scope{stoplog.ScopeFleet}) != stoplog.L0 || none.Version() != 0 || none.Epoch() != 0 || none.Entries() != nil {
		t.Error("the nil table is not empty")
	}
	raised := func(l stoplog.Level, epoch uint64) (r killswitch.Record) {
		r.Raises[l] = killswitch.Raise{Level: l, Epoch: epoch}
		return r
	}
	one := none.With(killswitch.Entry{Scope: "tenant/a", Record: raised(stoplog.L1, 7)})
	two := one.With(killswitch.Entry{Scope: stoplog.ScopeFleet, Record: raised(stoplog.L2, 3)})
	if again := two.With(one.Entries()...); again != two {
		t.Error("a merge that brings nothing made a new table")
	}
	if one.Version() >= two.Version() || two.Epoch() != 7 {
		t.Errorf("versions %d and %d, epoch %d", one.Version(), two.Version(), two.Epoch())
	}
	for _, c := range []struct {
		table  *killswitch.Table
		scopes []stoplog.Scope
		want   stoplog.Level
	}{
		{one, []stoplog.Scope{stoplog.ScopeFleet, "tenant/a"}, stoplog.L1},
		{one, []stoplog.Scope{stoplog.ScopeFleet, "tenant/b"}, stoplog.L0},
		{two, []stoplog.Scope{stoplog.ScopeFleet, "tenant/a"}, stoplog.L2},
		{two, []stoplog.Scope{"tenant/a"}, stoplog.L1},
		{two, nil, stoplog.L0},
	} {
		if got := c.table.Level(c.scopes); got != c.want {
			t.Errorf("level of %v: %s, want %s", c.scopes, got, c.want)
		}
	}
}
