package stoplog

import (
	"errors"
	"time"
)

// Error is the only error with meaning across packages: whatever else goes wrong is wrapped with what was being done.
type Error struct {
	Reason     Reason
	RetryAfter time.Duration // > 0 only where trying again can help
	Level      Level         // effective level, when a level refused
	Detail     string        // for people and models; no tenant data
	Err        error         // cause, for the log
}

func (e *Error) Error() string {
	s := string(e.Reason)
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// Refuse makes an Error.
func Refuse(r Reason, detail string) *Error { return &Error{Reason: r, Detail: detail} }

// ReasonOf is the reason carried by err, or ReasonInternal.
func ReasonOf(err error) Reason {
	var e *Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return ReasonInternal
}
