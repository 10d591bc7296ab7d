package operator

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission/killswitch"
	"github.com/stoplog/stoplog/receipts"
)

func (s *server) getLevels(w http.ResponseWriter, r *http.Request, who identity) error {
	entries, err := s.Operate.Levels(r.Context())
	if err != nil {
		return err
	}
	// The fleet's level is always shown: its absence would read as "unknown".
	if !slices.ContainsFunc(entries, func(e killswitch.Entry) bool { return e.Scope == stoplog.ScopeFleet }) {
		entries = append(entries, killswitch.Entry{Scope: stoplog.ScopeFleet})
	}
	slices.SortFunc(entries, func(a, b killswitch.Entry) int { return strings.Compare(scopeOrder(a.Scope), scopeOrder(b.Scope)) })
	out := List[Level]{Items: make([]Level, 0, len(entries))}
	for _, e := range entries {
		l := Level{Scope: string(e.Scope), Level: e.Record.Level().String()}
		if who.name != "" {
			describe(&l, e.Record)
		}
		out.Items = append(out.Items, l)
	}
	return answer(w, out)
}

func scopeOrder(s stoplog.Scope) string {
	if s == stoplog.ScopeFleet {
		return ""
	}
	return string(s)
}

func describe(l *Level, r killswitch.Record) {
	l.Epoch = r.Epoch()
	if d := r.Decision; d.Epoch > 0 {
		l.Decision = &LevelMark{Level: d.Level.String(), Epoch: d.Epoch, Actor: d.Actor, Reason: d.Reason, At: d.At.UTC(), Stands: true}
	}
	for _, x := range r.Raises {
		if x.Epoch > 0 {
			l.Raises = append(l.Raises, LevelMark{
				Level: x.Level.String(), Epoch: x.Epoch, Actor: x.Actor, Reason: x.Reason, At: x.At.UTC(),
				Stands: x.Epoch > r.Decision.Acked,
			})
		}
	}
}

func (s *server) postLevels(w http.ResponseWriter, r *http.Request, who identity) error {
	var c LevelChange
	err := read(r, &c)
	if err != nil {
		return err
	}
	scope, err := stoplog.ParseScope(c.Scope)
	if err != nil {
		return badRequest(err)
	}
	level, err := stoplog.ParseLevel(c.Level)
	if err != nil {
		return badRequest(err)
	}
	s.changes.Lock()
	defer s.changes.Unlock()
	var done LevelChanged
	switch c.Action {
	case "raise":
		done, err = s.raise(r.Context(), scope, level, c, who)
	case "lower":
		done, err = s.lower(r.Context(), scope, level, c, who)
	default:
		err = fmt.Errorf("action %q: want raise or lower", c.Action)
		return badRequest(err)
	}
	if err != nil {
		return err
	}
	return answer(w, done)
}

func badRequest(err error) error {
	return refuse(http.StatusBadRequest, stoplog.ReasonMalformedBody, err.Error())
}

func (s *server) recordOf(ctx context.Context, scope stoplog.Scope) (killswitch.Record, error) {
	entries, err := s.Operate.Levels(ctx)
	for _, e := range entries {
		if e.Scope == scope {
			return e.Record, err
		}
	}
	return killswitch.Record{}, err
}

// raise only tightens. So nothing stands in its way: no reason is needed, and neither an unreadable record nor a log that
// takes no receipts stops it.
func (s *server) raise(ctx context.Context, scope stoplog.Scope, to stoplog.Level, c LevelChange, who identity) (LevelChanged, error) {
	if to == stoplog.L0 {
		return LevelChanged{}, refuse(http.StatusBadRequest, stoplog.ReasonMalformedBody, "L0 is not a raise; use lower")
	}
	why, err := reason(c.Reason, false)
	if err != nil {
		return LevelChanged{}, err
	}
	if why == "" {
		why = "raised by an operator"
	}
	from := "unknown"
	before, err := s.recordOf(ctx, scope)
	if err == nil {
		from = before.Level().String()
	}
	// The receipt comes first, but must not delay a stop for long.
	recordCtx, cancel := context.WithTimeout(ctx, 2*time.Second)
	ref, recordErr := s.record(recordCtx, receipts.TypeLevel, levelNote("raise", scope, from, to, why, who, nil))
	cancel()
	after, err := s.Operate.Raise(ctx, scope, killswitch.Raise{Level: to, Actor: who.name, Reason: why, At: time.Now().UTC()})
	if err != nil {
		s.recordFailure(ctx, receipts.TypeLevel, levelNote("raise", scope, from, to, why, who, err))
		return LevelChanged{}, err
	}
	done := LevelChanged{
		Scope: string(scope), From: from, Asked: to.String(), Level: after.Level().String(), Epoch: after.Epoch(),
		Receipt: ref, Recorded: recordErr == nil,
	}
	switch {
	case recordErr != nil:
		done.Note = "the level is in force, but the receipt log took no record of it"
	case after.Level() > to:
		done.Note = "a stricter level was in force already and stays"
	}
	return done, nil
}

// lower is a human's decision about what he has seen: a raise that is newer than that stands.
func (s *server) lower(ctx context.Context, scope stoplog.Scope, to stoplog.Level, c LevelChange, who identity) (LevelChanged, error) {
	why, err := reason(c.Reason, true)
	if err != nil {
		return LevelChanged{}, err
	}
	before, err := s.recordOf(ctx, scope)
	if err != nil {
		return LevelChanged{}, err
	}
	from := before.Level()
	switch {
	case to >= from:
		return LevelChanged{}, refuse(http.StatusConflict, stoplog.ReasonPolicyDenied,
			fmt.Sprintf("%s is at %s: %s is not lower", scope, from, to))
	case c.Seen == 0 || c.Seen > before.Epoch():
		// An epoch from the future would answer raises that nobody has seen.
		return LevelChanged{}, refuse(http.StatusBadRequest, stoplog.ReasonMalformedBody,
			"seen must be the epoch that the level was shown with")
	}
	if from == stoplog.L3 {
		err = s.Verify(ctx)
		if err != nil {
			return LevelChanged{}, refuse(http.StatusConflict, stoplog.ReasonEvidenceUnavailable,
				"a full stop is lowered only after the receipt log verifies, and it does not: "+err.Error())
		}
	}
	note := levelNote("lower", scope, from.String(), to, why, who, nil)
	note["seen"] = strconv.FormatUint(c.Seen, 10)
	ref, err := s.record(ctx, receipts.TypeLevel, note)
	if err != nil {
		return LevelChanged{}, err
	}
	after, err := s.Operate.Decide(ctx, scope, killswitch.Decision{Level: to, Acked: c.Seen, Actor: who.name, Reason: why, At: time.Now().UTC()})
	if err != nil {
		s.recordFailure(ctx, receipts.TypeLevel, levelNote("lower", scope, from.String(), to, why, who, err))
		return LevelChanged{}, err
	}
	done := LevelChanged{
		Scope: string(scope), From: from.String(), Asked: to.String(), Level: after.Level().String(), Epoch: after.Epoch(),
		Receipt: ref, Recorded: true,
	}
	if after.Level() > to {
		done.Note = "a raise that you had not seen stands: look again with level get"
	}
	return done, nil
}

func levelNote(action string, scope stoplog.Scope, from string, to stoplog.Level, why string, who identity, failed error) map[string]string {
	n := map[string]string{
		"action": action, "scope": string(scope), "from": from, "to": to.String(), "reason": why, "actor": who.name,
	}
	if failed != nil {
		n["failed"] = string(stoplog.ReasonOf(failed))
	}
	return n
}

// recordFailure takes a receipt back that announced a change which did not come about. The caller hears of the failure
// anyway, so there is nobody left to tell if this fails as well.
func (s *server) recordFailure(ctx context.Context, t receipts.Type, note map[string]string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_, _ = s.record(ctx, t, note)
}
