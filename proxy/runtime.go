package proxy

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
	"github.com/stoplog/stoplog/proxy/connector"
	"github.com/stoplog/stoplog/receipts"
	"github.com/stoplog/stoplog/receipts/ledger"
)

// Runtime is what one configuration became. It is immutable and swapped whole; breakers, levels, seats, budgets and
// connections outlive it.
type Runtime struct {
	Policy       string // digest of the configuration, for receipts
	Pipeline     *admission.Pipeline
	Destinations map[string]*Destination
	Hosts        map[string]*Destination // authority, lower case -> destination
	Observe      bool                    // nothing but the address rule is enforced
}

// Destination is one destination as the proxy needs it.
type Destination struct {
	Name         string
	Scheme, Host string // origin; Host with port if it is not the scheme's own
	BasePath     string // without a trailing slash
	Profile      *connector.Profile
	DenyUnnamed  bool

	Total      time.Duration // the intent's deadline, streams included
	PerAttempt time.Duration // to the first byte of an answer
	Idle       time.Duration // longest silence inside an answer; 0 = Total
	Drain      time.Duration // for the usage of an abandoned model call
	Attempts   int           // of an intent, the first included; at least 1
	Retry      RetryPolicy

	MaxRequestBytes int64
	Hold            HoldPolicy
	Credential      func() (stoplog.Field, error) // nil: the agent's own passes
	Upstream        *Upstream
}

// HoldPolicy is how a destination's effects are held.
type HoldPolicy struct {
	MaxAge, ParkMaxAge  time.Duration
	MaxBytes            int64
	KeepAgentCredential bool
}

// RetryHint is what an answer said about trying again.
type RetryHint struct {
	RetryAfter, RetryAfterMS []string // header values
	Date                     string   // the answer's own clock
	Cool                     time.Duration
	Answered                 bool
}

// RetryPolicy decides about the next attempt. used counts the attempts made; remaining is the time to the intent's deadline.
type RetryPolicy interface {
	// Next returns how long to wait, or false when no useful attempt is left.
	Next(used int, remaining time.Duration, hint RetryHint) (time.Duration, bool)
	// Timeout bounds the next attempt, or false when too little time is left for a useful one.
	Timeout(remaining time.Duration) (time.Duration, bool)
}

// Listener is one way in. The actor comes from here, never from the request.
type Listener struct {
	Name        string
	Address     string // as bound
	Destination string // bound to one destination: paths carry no prefix
	Actor       stoplog.Actor
	Function    string
}

// Handler is the data plane behind all listeners.
type Handler struct {
	o       Options
	runtime atomic.Pointer[Runtime]
	intents intentTable
	flights flights
	drained chan struct{}
}

// Options of a Handler. All are required but Events.
type Options struct {
	Log    receipts.Appender
	Ledger ledger.Ledger
	// Key derives the claim key of an operation from who, where and which key or content.
	Key func(tenant, destination, agent, key string) [32]byte
	// NewID makes operation, intent and attempt ids.
	NewID func(prefix string) string
	// Committer makes the commitments of one operation for receipts.
	Committer func(op stoplog.OperationID) receipts.Committer
	// LocalURL is the base URL under which agents reach a destination ("http://127.0.0.1:7070/slack").
	LocalURL func(destination string) string
	// ProblemBase is where problem types resolve ("http://127.0.0.1:7071/problems/").
	ProblemBase string
	Events      Events
}

// Events tells metrics and logs what happened. Functions must not block.
type Events struct {
	Decided func(d *Destination, e *stoplog.Effect, dec stoplog.Decision, observed bool)
	Attempt func(d *Destination, e *stoplog.Effect, r connector.Result, status int, took, firstByte time.Duration)
	Failed  func(what string, err error) // an internal failure, with what was being done
	Flight  func(delta int)
}

// New makes a handler; it refuses everything until Swap gives it a runtime.
func New(o Options) *Handler {
	if o.Events.Decided == nil {
		o.Events.Decided = func(*Destination, *stoplog.Effect, stoplog.Decision, bool) {}
	}
	if o.Events.Attempt == nil {
		o.Events.Attempt = func(*Destination, *stoplog.Effect, connector.Result, int, time.Duration, time.Duration) {}
	}
	if o.Events.Failed == nil {
		o.Events.Failed = func(string, error) {}
	}
	if o.Events.Flight == nil {
		o.Events.Flight = func(int) {}
	}
	h := &Handler{o: o, drained: make(chan struct{})}
	h.intents.newID = func() stoplog.IntentID { return stoplog.IntentID(o.NewID("int")) }
	return h
}

// Swap puts a runtime in force for all requests that come after it.
func (h *Handler) Swap(rt *Runtime) { h.runtime.Store(rt) }

// Runtime is the one in force.
func (h *Handler) Runtime() *Runtime { return h.runtime.Load() }

// Entry is the handler of one listener.
func (h *Handler) Entry(l Listener) http.Handler { return &entry{h: h, l: l} }

type entry struct {
	h *Handler
	l Listener
}

// Drain refuses new effects and waits for those in flight.
func (h *Handler) Drain(ctx context.Context) error { return h.flights.drain(ctx) }

// RefusedFraming records that a connection to a listener was refused before it became a request.
func (h *Handler) RefusedFraming(listener string) {
	d := deny(stoplog.ReasonAmbiguousFraming, "")
	x := &exchange{h: h, rt: h.runtime.Load(), l: Listener{Address: listener}, client: context.Background()}
	x.recordRefusal(d)
}
