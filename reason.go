package stoplog

// Reason is a stable snake_case code. The same word is the receipt field, the metric label, the last segment of the
// problem type and the anchor in docs/reasons.md.
type Reason string

const (
	ReasonAllowed Reason = "allowed"

	// The request itself.
	ReasonAmbiguousFraming   Reason = "ambiguous_framing"
	ReasonAmbiguousPath      Reason = "ambiguous_path"
	ReasonAmbiguousQuery     Reason = "ambiguous_query"
	ReasonAmbiguousHost      Reason = "ambiguous_host"
	ReasonMethodOverride     Reason = "method_override"
	ReasonMalformedBody      Reason = "malformed_body"
	ReasonDuplicateKey       Reason = "duplicate_key"
	ReasonUnsupportedCoding  Reason = "unsupported_coding"
	ReasonBodyTooLarge       Reason = "body_too_large"
	ReasonMalformedHeader    Reason = "malformed_header"
	ReasonUnsupportedUpgrade Reason = "unsupported_upgrade"
	ReasonBatchRefused       Reason = "batch_refused"

	// Where it goes and what it is.
	ReasonUnknownDestination Reason = "unknown_destination"
	ReasonUnclassified       Reason = "unclassified"
	ReasonAddressDenied      Reason = "address_denied"
	ReasonPolicyDenied       Reason = "policy_denied"

	// Kill switch.
	ReasonOutreachFreeze Reason = "outreach_freeze"
	ReasonWriteFreeze    Reason = "write_freeze"
	ReasonFullStop       Reason = "full_stop"
	ReasonLevelUnknown   Reason = "level_unknown"

	// Destination: breaker, limits, seats.
	ReasonBreakerOpen       Reason = "breaker_open"
	ReasonProbeSlotUsed     Reason = "probe_slot_used"
	ReasonRateLimited       Reason = "rate_limited"
	ReasonTokensLimited     Reason = "tokens_limited"
	ReasonShareUsed         Reason = "share_used"
	ReasonSeatsTaken        Reason = "seats_taken"
	ReasonTenantSeatsTaken  Reason = "tenant_seats_taken"
	ReasonCostExceedsBurst  Reason = "cost_exceeds_burst"
	ReasonRetryBudgetUsed   Reason = "retry_budget_used"
	ReasonStoreUnavailable  Reason = "store_unavailable"
	ReasonStoreStateMissing Reason = "store_state_missing"

	// Intent.
	ReasonAttemptsUsed     Reason = "attempts_used"
	ReasonDeadlineExceeded Reason = "deadline_exceeded"

	// Budgets.
	ReasonBudgetExhausted Reason = "budget_exhausted"
	ReasonPriceUnknown    Reason = "price_unknown"

	// Operations.
	ReasonKnownOperation      Reason = "known_operation"
	ReasonInProgress          Reason = "in_progress"
	ReasonIdempotencyMismatch Reason = "idempotency_mismatch"
	ReasonOutcomeUnknown      Reason = "outcome_unknown"
	ReasonHoldTooLarge        Reason = "hold_too_large"
	ReasonHoldNeedsCredential Reason = "hold_needs_credential"
	ReasonWithdrawn           Reason = "withdrawn"
	ReasonHeldAgain           Reason = "held"

	// The sidecar and the destination's answer.
	ReasonEvidenceUnavailable Reason = "evidence_unavailable"
	ReasonConfigNotReady      Reason = "config_not_ready"
	ReasonDraining            Reason = "draining"
	ReasonOverloaded          Reason = "overloaded"
	ReasonUpstreamUnreachable Reason = "upstream_unreachable"
	ReasonUpstreamTimeout     Reason = "upstream_timeout"
	ReasonUpstreamBroken      Reason = "upstream_broken"
	ReasonClientGone          Reason = "client_gone"
	ReasonOperatorOnly        Reason = "operator_only"
	ReasonNotFound            Reason = "not_found"
	ReasonInternal            Reason = "internal"
)
