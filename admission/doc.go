// Package admission decides whether one effect may leave.
//
// The picture, for each attempt:
//
//	Judge: stages give opinions, in a fixed order. An opinion is free and repeatable: a stage takes nothing and sends nothing.
//	Claim: all charges that the stages named are taken in one atomic step by the Store, with the kill switch and the
//	       destination's breaker as conditions. Refused means that nothing was taken.
//	Settle: what was taken is settled exactly once, whatever happened.
//
// A Permit is the proof that both steps passed. Only Pipeline makes one; it owns the exact bytes, and the forwarder can
// send nothing else.
package admission
