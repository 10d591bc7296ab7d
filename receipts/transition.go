package receipts

import "slices"

// transitions is the state table of operations: for each event, the states it may lead to from each state. "" is an
// operation that is not known. The ledger refuses what is not in it, and Verify names it.
var transitions = map[Type]map[string][]string{
	TypeHoldCreated:   {"": {"proposed"}, "proposed": {"proposed"}},
	TypeHoldReleased:  {"proposed": {"proposed"}},
	TypeHoldWithdrawn: {"proposed": {"void"}},
	TypeHoldExpired:   {"proposed": {"void"}},
	TypeDispatching:   {"": {"dispatching"}, "proposed": {"dispatching"}, "dispatching": {"dispatching"}},
	TypeOpUnknown:     {"dispatching": {"unknown"}},
	TypeOpOutcome: {
		"dispatching":   {"confirmed", "unknown", "void", "dispatching"},
		"unknown":       {"confirmed", "unknown", "superseded", "manual_review"},
		"manual_review": {"confirmed", "superseded"},
		// late evidence that agrees is recorded and moves nothing
		"confirmed": {"confirmed"}, "superseded": {"superseded"}, "void": {"void"},
	},
}

// LegalTransition reports whether an event may lead from one ledger state to another. Events that move nothing
// (op.conflict, op.replayed) may not name another state.
func LegalTransition(t Type, from, to string) bool {
	table, moves := transitions[t]
	if !moves {
		return from == to
	}
	return slices.Contains(table[from], to)
}
