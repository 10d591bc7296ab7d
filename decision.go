package stoplog

import "time"

// Verdict is the result of admission. The zero value is Deny. Stricter verdicts are smaller.
type Verdict uint8

const (
	Deny   Verdict = iota // refused; nothing is kept
	Park                  // a write kept aside, or an effect that waits for a human
	Hold                  // a message kept byte for byte until it is released
	Replay                // the operation is known: its recorded result is the answer
	Allow
)

var verdictNames = [...]string{"deny", "park", "hold", "replay", "allow"}

func (v Verdict) String() string {
	if int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return "deny"
}

// Decision is a verdict with the reason for it. The zero Decision denies.
type Decision struct {
	Verdict    Verdict
	Reason     Reason
	Stage      string        // which judge decided
	Rule       string        // which configured rule, if one did ("budgets/model-hourly")
	RetryAfter time.Duration // > 0 only where trying again can help
	Detail     string        // for people and models; never tenant data, recipients or object names
	Operation  OperationID   // of a Replay: the known operation
	Level      Level         // effective level when a level decided
}

// Allowed is the decision that lets an effect pass.
func Allowed(stage string) Decision {
	return Decision{Verdict: Allow, Reason: ReasonAllowed, Stage: stage}
}

// Outcome is what is known about an effect after it was (perhaps) sent.
type Outcome uint8

const (
	OutcomeUnknown   Outcome = iota // bytes may have left and no definite answer came
	OutcomeNotSent                  // proven: no byte reached the destination, or it was proven unprocessed
	OutcomeConfirmed                // the destination applied the effect
	OutcomeRejected                 // the destination definitely did not apply it
)

var outcomeNames = [...]string{"unknown", "not_sent", "confirmed", "rejected"}

func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return "unknown"
}

// ParseOutcome reads the name of an outcome; an unknown name is OutcomeUnknown, false.
func ParseOutcome(s string) (Outcome, bool) {
	for i, n := range outcomeNames {
		if n == s {
			return Outcome(i), true
		}
	}
	return OutcomeUnknown, false
}

// Health is what an outcome says about the destination itself; breakers count nothing else.
type Health uint8

const (
	HealthNeutral   Health = iota // says nothing: the caller left, one caller's mistake, our own refusal
	HealthGood                    // the destination answered as it should
	HealthBad                     // the destination failed
	HealthThrottled               // the destination asked this credential to slow down: cools the bucket, not the breaker
)

func (h Health) String() string {
	return [...]string{"neutral", "good", "bad", "throttled"}[min(int(h), 3)]
}
