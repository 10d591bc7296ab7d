package memory_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
	"github.com/stoplog/stoplog/admission/killswitch"
	"github.com/stoplog/stoplog/internal/memory"
)

var fleet = []stoplog.Scope{stoplog.ScopeFleet}

func level(t *testing.T, s *memory.Store, want stoplog.Level) {
	t.Helper()
	if got, err := s.Level(fleet); err != nil || got != want {
		t.Errorf("level %s, %v; want %s", got, err, want)
	}
}

func raise(t *testing.T, s *memory.Store, l stoplog.Level) killswitch.Record {
	t.Helper()
	r, err := s.Raise(t.Context(), stoplog.ScopeFleet, killswitch.Raise{Level: l, Actor: "user:alice"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// An unreadable stop state was treated as "not stopped": JiRaska/open-bank-oss#10571.
func TestUnreadableLevelFile(t *testing.T) {
	for name, spoil := range map[string]func(b []byte) []byte{
		"empty":     func([]byte) []byte { return nil },
		"torn":      func(b []byte) []byte { return b[:len(b)-9] },
		"edited":    func(b []byte) []byte { return []byte(strings.Replace(string(b), `"Level":1`, `"Level":0`, 1)) },
		"foreign":   func([]byte) []byte { return []byte("[]\n") },
		"extended":  func(b []byte) []byte { return append(b, "[]\n"...) },
		"one byte":  func([]byte) []byte { return []byte{0} },
		"no header": func(b []byte) []byte { return b[strings.Index(string(b), "\n")+1:] },
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "levels")
			raise(t, memory.New(memory.Options{LevelFile: file}), stoplog.L1)
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, spoil(b), 0o600); err != nil {
				t.Fatal(err)
			}
			s := memory.New(memory.Options{LevelFile: file})
			level(t, s, stoplog.L2)
			if s.Warning() == nil {
				t.Error("no warning")
			}
			level(t, memory.New(memory.Options{LevelFile: file}), stoplog.L2) // again at the next start

			entries, err := s.Levels(t.Context())
			if err != nil || len(entries) != 1 {
				t.Fatalf("%v, %v", entries, err)
			}
			_, err = s.Decide(t.Context(), stoplog.ScopeFleet, killswitch.Decision{Actor: "user:alice", Acked: entries[0].Record.Epoch()})
			if err != nil {
				t.Fatal(err)
			}
			level(t, s, stoplog.L0)
			if s.Warning() != nil {
				t.Errorf("warning after a person decided: %v", s.Warning())
			}
			level(t, memory.New(memory.Options{LevelFile: file}), stoplog.L0)
		})
	}
}

func TestLevelFileIsPrivateAndWhole(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "levels")
	s := memory.New(memory.Options{LevelFile: file})
	for range 3 {
		raise(t, s, stoplog.L1)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("files %v, %v; want the one", left, err)
	}
}

// A disk that fails must not keep a stop from binding, and must not let a lowering through that a restart would forget.
func TestLevelFileCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s := memory.New(memory.Options{LevelFile: filepath.Join(dir, "levels")})
	seen := raise(t, s, stoplog.L1)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	_, err := s.Decide(t.Context(), stoplog.ScopeFleet, killswitch.Decision{Actor: "user:alice", Acked: seen.Epoch()})
	if err == nil {
		t.Error("a lowering that is not in the file succeeded")
	}
	level(t, s, stoplog.L1)
	_, err = s.Raise(t.Context(), stoplog.ScopeFleet, killswitch.Raise{Level: stoplog.L3, Actor: "user:alice"})
	if err == nil || s.Warning() == nil {
		t.Error("nobody is told that a restart would forget the raise")
	}
	level(t, s, stoplog.L3)
}

func TestMergeFromElsewhere(t *testing.T) {
	a, b := memory.New(memory.Options{}), memory.New(memory.Options{})
	seen := raise(t, a, stoplog.L3)
	join := func(from, to *memory.Store) {
		t.Helper()
		entries, err := from.Levels(t.Context())
		if err == nil {
			err = to.Merge(entries)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	join(a, b)
	level(t, b, stoplog.L3)
	_, err := b.Decide(t.Context(), stoplog.ScopeFleet, killswitch.Decision{Actor: "user:alice", Acked: seen.Epoch()})
	if err != nil {
		t.Fatal(err)
	}
	join(a, b) // the old copy again
	level(t, b, stoplog.L0)
	join(b, a)
	level(t, a, stoplog.L0)

	poison := killswitch.Record{Decision: killswitch.Decision{Epoch: 1<<64 - 1, Acked: 1<<64 - 2}}
	if b.Merge([]killswitch.Entry{{Scope: stoplog.ScopeFleet, Record: poison}}) == nil {
		t.Error("a record after which no epoch can come was merged")
	}
}

// Callbacks may ask the store: no lock is held.
func TestCallbacks(t *testing.T) {
	var s *memory.Store
	var levels []stoplog.Level
	var states []admission.BreakerState
	s = memory.New(memory.Options{
		OnLevel: func(e killswitch.Entry) {
			got, _ := s.Level([]stoplog.Scope{e.Scope})
			levels = append(levels, got)
			_, _ = s.Levels(t.Context())
			_ = s.Warning()
		},
		OnBreaker: func(v admission.BreakerView) {
			states = append(states, v.State)
			_, _ = s.Breakers(t.Context())
		},
	})
	raise(t, s, stoplog.L1)
	raise(t, s, stoplog.L3)
	if len(levels) != 2 || levels[0] != stoplog.L1 || levels[1] != stoplog.L3 {
		t.Errorf("levels told: %v", levels)
	}
	for _, to := range []admission.BreakerState{admission.BreakerOpen, admission.BreakerHalfOpen} {
		if err := s.Force(t.Context(), "vendor", "", to); err != nil {
			t.Fatal(err)
		}
	}
	if len(states) != 2 || states[0] != admission.BreakerOpen || states[1] != admission.BreakerHalfOpen {
		t.Errorf("moves told: %v", states)
	}
	if err := s.Force(t.Context(), "typo", "", admission.BreakerHalfOpen); stoplog.ReasonOf(err) != stoplog.ReasonNotFound {
		t.Errorf("half-open of an unknown destination: %v", err)
	}
}
