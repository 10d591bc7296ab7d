package connector

import (
	"net/http"

	"github.com/stoplog/stoplog"
)

// Words for how much of a request had left when no answer came.
const (
	SentNone    = "none"    // proven: no byte, or proven unprocessed
	SentPartial = "partial" // some bytes may have left
	SentFull    = "full"
)

// Flags of a result without an answer.
const (
	FlagTimeout  = "timeout"
	FlagCanceled = "canceled"
)

// NoAnswer is the result of an attempt that no answer came to. canceled means that our own side gave up: the client left,
// or the deadline of the whole intent passed while the destination was within its own time.
func (rd *Reading) NoAnswer(sent string, timeout, canceled bool) Result {
	res := Result{Outcome: stoplog.OutcomeUnknown, Health: stoplog.HealthBad}
	if sent == SentNone {
		res.Outcome = stoplog.OutcomeNotSent
		res.Usage.Known = rd.op.model != nil
	}
	if timeout {
		res.Flags = append(res.Flags, FlagTimeout)
		if rd.op.model != nil {
			res.Class = rd.BreakerClass() // one slow model is not a slow provider
		}
	}
	if canceled {
		res.Health = stoplog.HealthNeutral
		res.Flags = []string{FlagCanceled}
	}
	return res
}

// Retryable reports whether another attempt may follow: only after transient failures, and only where a second
// transmission cannot be a second effect. status is 0 when no answer came. The caller must see to it that no byte of the
// answer has reached the client, and that attempts and useful time are left.
func (rd *Reading) Retryable(res Result, status int) bool {
	if res.Final || res.Has(FlagCanceled) || res.Has(FlagAbandoned) {
		return false
	}
	safe := rd.Effect.Retry == stoplog.RetrySafe ||
		rd.Effect.Retry == stoplog.RetryKeyed && rd.Effect.Idempotency.Key != ""
	switch res.Outcome {
	case stoplog.OutcomeNotSent:
		return true
	case stoplog.OutcomeRejected:
		return res.Health == stoplog.HealthThrottled || safe && res.Health == stoplog.HealthBad
	case stoplog.OutcomeUnknown:
		transient := status == 0 || status >= 500 || status == http.StatusConflict || res.Has(FlagTruncated)
		return safe && transient
	default:
		return false
	}
}
