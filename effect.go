package stoplog

import (
	"fmt"
	"time"
)

// Class says how much an effect may change in the world. The zero value is no class: it is never admitted.
type Class uint8

const (
	ClassUnspecified Class = iota
	ClassRead              // changes nothing
	ClassModel             // asks a model; costs money and tokens
	ClassWrite             // changes a system of record; also whatever a profile does not name
	ClassMessage           // reaches a person
)

var classNames = [...]string{"unspecified", "read", "model", "write", "message"}

func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return classNames[0]
}

// ParseClass reads the lower-case name of a class.
func ParseClass(s string) (Class, error) {
	for i, n := range classNames {
		if i > 0 && n == s {
			return Class(i), nil
		}
	}
	return ClassUnspecified, fmt.Errorf("class %q: want read, model, write or message", s)
}

// Durable reports whether an effect of this class needs an operation in the ledger and a durable intent before its first
// byte leaves.
func (c Class) Durable() bool { return c == ClassWrite || c == ClassMessage }

// Names of the identifiers that travel through the system. All are opaque, at most 128 bytes, and safe to log.
type (
	OperationID string // one logical effect in the ledger; stable over attempts, processes and releases
	IntentID    string // one customer wish: one deadline, one attempt budget
)

// Actor is who stands behind an effect. It comes from the listener or a verified credential, never from a bare header.
type Actor struct {
	Tenant string
	Org    string
	Agent  string
	Run    string
}

// Money is an amount in integer micro-units (1 USD = 1,000,000) of an ISO 4217 currency. The zero value is "no amount",
// which is different from an amount of zero (Currency set, Micros 0).
type Money struct {
	Currency string
	Micros   int64
}

// IsZero reports whether no amount is known.
func (m Money) IsZero() bool { return m.Currency == "" }

// RetrySafety says what a second transmission of the same effect would do at its destination.
type RetrySafety uint8

const (
	RetryNever RetrySafety = iota // a second transmission may be a second effect
	RetryKeyed                    // safe only under the same idempotency key, inside the destination's window
	RetrySafe                     // repeating changes nothing (reads, model calls)
)

func (r RetrySafety) String() string {
	return [...]string{"never", "keyed", "safe"}[min(int(r), 2)]
}

// Idempotency is how a destination recognises a repeated effect.
type Idempotency struct {
	Header string        // request header that carries the key; empty if the destination knows none
	Key    string        // key the agent sent, if any
	Window time.Duration // how long the destination remembers the key; 0 = unknown
}

// ModelCall is the part of an effect that is priced by tokens.
type ModelCall struct {
	Name            string // model as named in the request
	InputTokens     int64  // estimate from the request's size
	MaxOutputTokens int64  // limit named in the request; 0 = none named
	Stream          bool
}

// Effect is what one outbound request would do, as a connector profile reads it.
type Effect struct {
	Class       Class
	Action      string // operation of the profile, for example "chat.postMessage"
	Unnamed     bool   // no operation of the profile matched: Action is the profile's default
	Destination string // name of the configured destination
	Connector   string // name of the profile
	Actor       Actor
	Function    string // kind of work served; from the listener or a verified credential
	Subject     string

	Intent       IntentID
	Operation    OperationID // id the agent gave (Stoplog-Operation, Idempotency-Key); empty = derived
	Recipients   []string    // sorted, unique
	Citations    []string    // objects named in the artefact; sorted, unique
	Thread       string      // conversation the effect belongs to, if any
	Amount       Money
	Model        ModelCall
	Retry        RetrySafety
	Idempotency  Idempotency
	Irreversible bool

	// Digest is SHA-256 over everything the destination can distinguish: method, host, target, effect-bearing headers
	// and the raw body bytes. Reads and model calls may have none (all zero): nothing is known by it.
	Digest [32]byte
}

// Usage is what a model call consumed, as the provider reported it or as it was counted.
type Usage struct {
	Input     int64 // tokens read, cached ones included
	Cached    int64 // part of Input that came from the provider's cache
	Output    int64 // tokens written, reasoning included
	Estimated bool  // counted or assumed by Stoplog; the provider's own figure never arrived
	Known     bool  // false: nothing is known and the reservation stands
}

// Total is input plus output tokens.
func (u Usage) Total() int64 { return u.Input + u.Output }
