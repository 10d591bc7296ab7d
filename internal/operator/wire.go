package operator

import "time"

// The shapes below are the API's JSON and, with --json, the command line's: fields are added, never renamed or removed.

// Level is one scope of the kill switch. Without operator access only scope and level are shown.
type Level struct {
	Scope    string      `json:"scope"`
	Level    string      `json:"level"`
	Epoch    uint64      `json:"epoch,omitempty"` // what whoever looks at this has seen; a lowering names it
	Decision *LevelMark  `json:"decision,omitempty"`
	Raises   []LevelMark `json:"raises,omitempty"`
}

// LevelMark is one decision or raise.
type LevelMark struct {
	Level  string    `json:"level"`
	Epoch  uint64    `json:"epoch"`
	Actor  string    `json:"actor"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
	Stands bool      `json:"stands"` // raises: not answered by a decision
}

// LevelChange asks for a change of one scope's level.
type LevelChange struct {
	Action string `json:"action"` // "raise" or "lower"
	Scope  string `json:"scope"`
	Level  string `json:"level"`
	Reason string `json:"reason,omitempty"` // needed to lower
	Seen   uint64 `json:"seen,omitempty"`   // lower: the epoch that the human was shown; newer raises stand
}

// LevelChanged is the answer to a LevelChange.
type LevelChanged struct {
	Scope    string `json:"scope"`
	From     string `json:"from"`
	Asked    string `json:"asked"`
	Level    string `json:"level"` // in force now
	Epoch    uint64 `json:"epoch"`
	Receipt  *Ref   `json:"receipt,omitempty"`
	Recorded bool   `json:"recorded"`
	Note     string `json:"note,omitempty"`
}

// Ref is where a receipt stands.
type Ref struct {
	Log string `json:"log"`
	Seq int64  `json:"seq"`
}

// Breaker is one destination's breaker.
type Breaker struct {
	Destination string     `json:"destination"`
	Class       string     `json:"class,omitempty"`
	State       string     `json:"state"`
	Epoch       uint64     `json:"epoch"`
	Since       *time.Time `json:"since,omitempty"`
	RetryAt     *time.Time `json:"retry_at,omitempty"`
	Trips       int        `json:"trips"`
	ProbesGood  int64      `json:"probes_good"`
	Successes   int64      `json:"successes"`
	Failures    int64      `json:"failures"`
	Ramp        float64    `json:"ramp,omitempty"`
}

// BreakerForce moves a breaker by hand.
type BreakerForce struct {
	Class  string `json:"class,omitempty"`
	To     string `json:"to"` // "open" or "half_open"
	Reason string `json:"reason"`
}

// Budget is one account of a budget in its current window.
type Budget struct {
	Budget string     `json:"budget"`
	Key    string     `json:"key"`
	Unit   string     `json:"unit"`
	Limit  int64      `json:"limit"`
	Used   int64      `json:"used"`
	Held   int64      `json:"held"` // reserved by calls under way
	Left   int64      `json:"left"`
	Ends   *time.Time `json:"ends,omitempty"`
}

// DestinationStatus is a destination with what its limits have left.
type DestinationStatus struct {
	Destination
	Tokens    float64        `json:"tokens"`
	Seats     int64          `json:"seats"`
	SeatLimit int64          `json:"seat_limit"`
	Tenants   []TenantStatus `json:"tenants,omitempty"`
}

// TenantStatus is one tenant's part of a destination.
type TenantStatus struct {
	Tenant string  `json:"tenant"`
	Seats  int64   `json:"seats"`
	Weight float64 `json:"weight"`
}

// Operation is one operation of the ledger: never its content, and of its recipients only how many.
type Operation struct {
	ID          string     `json:"operation"`
	State       string     `json:"state"`
	Outcome     string     `json:"outcome,omitempty"`
	Attempt     int        `json:"attempt"`
	Class       string     `json:"class"`
	Action      string     `json:"action"`
	Destination string     `json:"destination"`
	Tenant      string     `json:"tenant,omitempty"`
	Org         string     `json:"org,omitempty"`
	Agent       string     `json:"agent,omitempty"`
	Function    string     `json:"function,omitempty"`
	Recipients  int        `json:"recipients"`
	Citations   int        `json:"citations"`
	Digest      string     `json:"digest"`
	Created     *time.Time `json:"created,omitempty"`
	Updated     *time.Time `json:"updated,omitempty"`
	Receipt     *Ref       `json:"receipt,omitempty"`
	Hold        *Hold      `json:"hold,omitempty"`
}

// Hold says why an operation waits, and how long at most.
type Hold struct {
	Verdict    string     `json:"verdict"` // "hold" or "park"
	Reason     string     `json:"reason"`
	Level      string     `json:"level"`
	NotBefore  *time.Time `json:"not_before,omitempty"`
	Expires    *time.Time `json:"expires,omitempty"`
	Bytes      int64      `json:"bytes"`
	Credential string     `json:"credential,omitempty"`
}

// Selection picks holds: all conditions that are given must match. An empty one picks nothing; All must be said.
type Selection struct {
	All         bool     `json:"all,omitempty"`
	Operations  []string `json:"operations,omitempty"`
	Destination string   `json:"destination,omitempty"`
	Tenant      string   `json:"tenant,omitempty"`
	Agent       string   `json:"agent,omitempty"`
	Class       string   `json:"class,omitempty"`
	Action      string   `json:"action,omitempty"`
}

// ReleaseRequest releases a selection of holds.
type ReleaseRequest struct {
	Selection Selection `json:"selection"`
	Reason    string    `json:"reason,omitempty"`
	DryRun    bool      `json:"dry_run,omitempty"`
}

// Preview is a dry run: how many, and to whom. A recipient appears as a mark that is the same within one run of the sidecar
// and means nothing outside it.
type Preview struct {
	Holds        int            `json:"holds"`
	Messages     int            `json:"messages"`
	Writes       int            `json:"writes"`
	Destinations map[string]int `json:"destinations"`
	Tenants      map[string]int `json:"tenants"`
	Recipients   []Recipient    `json:"recipients"`
	Operations   []string       `json:"operations"`
}

// Recipient is one recipient's part of a preview.
type Recipient struct {
	Mark  string `json:"mark"`
	Holds int    `json:"holds"`
}

// Released is what became of one hold.
type Released struct {
	Operation    string `json:"operation"`
	Destination  string `json:"destination,omitempty"`
	Action       string `json:"action,omitempty"`
	Verdict      string `json:"verdict"` // of the new judgment; "error" if it could not be made, "waiting" if one before it waits
	Reason       string `json:"reason"`
	Stage        string `json:"stage,omitempty"`
	Rule         string `json:"rule,omitempty"`
	Detail       string `json:"detail,omitempty"`
	Sent         bool   `json:"sent"`
	Outcome      string `json:"outcome,omitempty"`
	Status       int    `json:"status,omitempty"`
	Digest       string `json:"digest,omitempty"`
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"`
}

// ReleaseAnswer is the answer to a ReleaseRequest: a preview, or results in the order of the attempts.
type ReleaseAnswer struct {
	DryRun  bool       `json:"dry_run"`
	Preview *Preview   `json:"preview,omitempty"`
	Results []Released `json:"results,omitempty"`
	Sent    int        `json:"sent"`
	Kept    int        `json:"kept"`
}

// WithdrawRequest ends a hold without sending it.
type WithdrawRequest struct {
	Reason string `json:"reason,omitempty"`
}

// ConfigDump is the configuration in force.
type ConfigDump struct {
	Version string `json:"version"`
	YAML    string `json:"yaml"`
}

// ConfigVersion is the answer to a reload.
type ConfigVersion struct {
	Version string `json:"version"`
	Changed bool   `json:"changed"`
}

// Version is the sidecar's.
type Version struct {
	Version string `json:"version"`
}

// List wraps a list, so that fields can be added beside it.
type List[T any] struct {
	Items []T `json:"items"`
}

// Problem is an error answer (RFC 9457).
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Reason string `json:"reason"`
	Detail string `json:"detail,omitempty"`
}

func (p *Problem) Error() string {
	if p.Detail != "" {
		return p.Detail
	}
	return p.Title
}
