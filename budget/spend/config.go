// Package spend is the budgets that are used up in a window: money, model tokens, messages.
//
//	judge:  estimate what the effect will cost ─▶ one SpendCharge per budget that matches it
//	claim:  the store reserves all estimates or none; used + reserved never exceeds the limit
//	settle: the charge's Actual says what it really cost ─▶ the store replaces the estimate
//
// An unknown price is the configured ceiling, never zero. A reservation that nobody settles becomes spend.
package spend

import (
	"fmt"
	"strings"
	"time"

	"github.com/stoplog/stoplog"
)

// Unit is what a budget counts.
type Unit string

const (
	USDMicro Unit = "usd_micro" // millionths of a US dollar, of model calls
	Token    Unit = "token"     // input and output tokens of model calls
	Message  Unit = "message"   // recipients of messages
)

// Dimension is what a budget is kept apart by.
type Dimension string

const (
	PerTenant      Dimension = "tenant"
	PerAgent       Dimension = "agent"
	PerFunction    Dimension = "function"
	PerDestination Dimension = "destination"
)

// Window is how long a budget lasts. Windows begin at round times of the budget's zone.
type Window string

const (
	Hour  Window = "hour"
	Day   Window = "day"
	Week  Window = "week" // from Monday
	Month Window = "month"
	Total Window = "total" // never begins anew
)

// Config is all budgets and prices.
type Config struct {
	Budgets []Budget
	Prices  PriceTable
	// MaxOutput is assumed for a model call that names no limit of output tokens, and is the most that is reserved for one
	// that does, except for hard budgets. 0 = 4,096.
	MaxOutput int64
}

// Budget is one limit in each window, for the effects that match it.
type Budget struct {
	Name   string        // unique; appears in receipts, refusals and metrics
	Unit   Unit          //
	Limit  int64         // in Unit, per window and per distinct value of Per; 0 allows nothing
	Per    []Dimension   // empty = one account for the whole fleet
	Window Window        //
	Zone   string        // IANA name; "" = UTC
	Hard   bool          // reserve the worst case, so that nothing can be overspent; idles more of the budget
	Holds  int64         // most reservations open at one time; 0 = no bound
	Hold   time.Duration // after which an unsettled reservation is spend; 0 = 15 minutes

	// The effect matches if each list is empty or has its value.
	Destinations []string
	Tenants      []string
	Functions    []string
	Selects      func(*stoplog.Effect) bool // nil = every effect that the lists leave
}

const (
	defaultMaxOutput = 4096
	defaultHold      = 15 * time.Minute
)

// Validate names the first field that is wrong.
func (c Config) Validate() error {
	seen := make(map[string]bool, len(c.Budgets))
	for i, b := range c.Budgets {
		at := fmt.Sprintf("budgets[%d]", i)
		err := b.validate(at)
		if err != nil {
			return err
		}
		if seen[b.Name] {
			return fmt.Errorf("%s.name: %q is used twice", at, b.Name)
		}
		seen[b.Name] = true
	}
	if c.MaxOutput < 0 {
		return fmt.Errorf("max_output: %d: want a number of tokens, or 0 for %d", c.MaxOutput, defaultMaxOutput)
	}
	return c.Prices.validate(c.priced())
}

// priced reports whether some budget counts money.
func (c Config) priced() bool {
	for _, b := range c.Budgets {
		if b.Unit == USDMicro {
			return true
		}
	}
	return false
}

func (b Budget) validate(at string) error {
	switch {
	case b.Name == "" || strings.ContainsAny(b.Name, "/ \t\n"):
		return fmt.Errorf("%s.name: %q: want a word without slash or space", at, b.Name)
	case b.Unit != USDMicro && b.Unit != Token && b.Unit != Message:
		return fmt.Errorf("%s.unit: %q: want usd_micro, token or message", at, b.Unit)
	case b.Limit < 0:
		return fmt.Errorf("%s.limit: %d: want 0 or more", at, b.Limit)
	case b.Holds < 0:
		return fmt.Errorf("%s.holds: %d: want 0 or more", at, b.Holds)
	case b.Hold < 0:
		return fmt.Errorf("%s.hold: %s: want 0 or more", at, b.Hold)
	}
	switch b.Window {
	case Hour, Day, Week, Month, Total:
	default:
		return fmt.Errorf("%s.window: %q: want hour, day, week, month or total", at, b.Window)
	}
	for j, p := range b.Per {
		if p != PerTenant && p != PerAgent && p != PerFunction && p != PerDestination {
			return fmt.Errorf("%s.per[%d]: %q: want tenant, agent, function or destination", at, j, p)
		}
	}
	_, err := time.LoadLocation(b.Zone)
	if err != nil || b.Zone == "Local" {
		return fmt.Errorf("%s.zone: %q: want a name like Europe/Amsterdam", at, b.Zone)
	}
	return nil
}

// counts reports whether an effect of this class can cost anything in the unit.
func (u Unit) counts(c stoplog.Class) bool {
	if u == Message {
		return c == stoplog.ClassMessage
	}
	return c == stoplog.ClassModel
}
