package reasons

import "github.com/stoplog/stoplog"

// "What" says what happened and why; "Do" is for whoever can change it. Both are written so that a language model that
// reads them does the right thing: usually nothing more.
var table = []Group{
	{"Let through", []Entry{
		{
			stoplog.ReasonAllowed, "Allowed",
			"Every check allowed the effect and every charge was taken.",
			"Nothing.", Passed,
		},
	}},
	{"The request itself", []Entry{
		{
			stoplog.ReasonAmbiguousFraming, "The request's framing can be read in two ways",
			"Content-Length and Transfer-Encoding disagree, are repeated or are malformed. Stoplog and the destination might see two different requests.",
			"Send one Content-Length or one chunked body, as every common HTTP client does by itself.", Refused,
		},
		{
			stoplog.ReasonAmbiguousPath, "The path can be read in two ways",
			"The path has dot segments, empty segments, encoded slashes or invalid escapes that servers resolve differently.",
			"Send the path in its plain form.", Refused,
		},
		{
			stoplog.ReasonAmbiguousQuery, "The query can be read in two ways",
			"The query repeats a name that the decision rests on, or is not validly encoded.",
			"Send each parameter once, percent-encoded.", Refused,
		},
		{
			stoplog.ReasonAmbiguousHost, "The host can be read in two ways",
			"Host is missing, repeated, malformed, or differs from the authority in the request line.",
			"Send one Host that names the sidecar's listener.", Refused,
		},
		{
			stoplog.ReasonMethodOverride, "A header tries to replace the method",
			"A method-override header or parameter would make the destination run another method than the one that was judged.",
			"Send the real method in the request line.", Refused,
		},
		{
			stoplog.ReasonMalformedBody, "The body is not what its type says",
			"The body cannot be read under its Content-Type by a strict reader: broken syntax, invalid UTF-8 or a second document behind the first.",
			"Send a well-formed body with the right Content-Type.", Refused,
		},
		{
			stoplog.ReasonDuplicateKey, "The body names a key twice",
			"An object in the body has the same key more than once. Readers disagree about which one counts.",
			"Send each key once.", Refused,
		},
		{
			stoplog.ReasonUnsupportedCoding, "The body's coding cannot be inspected",
			"The body has a Content-Encoding or a character set that Stoplog does not decode, so its content could not be judged.",
			"Send the body without Content-Encoding, in UTF-8.", Refused,
		},
		{
			stoplog.ReasonBodyTooLarge, "The body is larger than what is inspected",
			"The body exceeds the destination's max_request_bytes. What cannot be inspected is not forwarded.",
			"Send less in one request, or raise max_request_bytes of the destination (at most 64 MiB).", Refused,
		},
		{
			stoplog.ReasonMalformedHeader, "A header is malformed",
			"A header field has forbidden characters, or a Stoplog-* header is not a valid structured field.",
			"Correct the header. Stoplog-* headers are RFC 9651 structured fields.", Refused,
		},
		{
			stoplog.ReasonUnsupportedUpgrade, "The protocol upgrade is not supported",
			"The request asks to switch to a protocol that Stoplog cannot judge frame by frame.",
			"Use plain HTTP, server-sent events, or a protocol that the destination's profile supports.", Refused,
		},
		{
			stoplog.ReasonBatchRefused, "Several effects in one request",
			"The body holds a batch. One request is one effect, so that one decision and one receipt cover it.",
			"Send the parts as single requests.", Refused,
		},
	}},
	{"Where it goes and what it is", []Entry{
		{
			stoplog.ReasonUnknownDestination, "The destination is not configured",
			"No destination of this name or authority exists in the configuration. Unknown destinations are denied.",
			"Check the spelling of the first path segment. To add the destination, take the lines from `stoplog learn` into your configuration file.", Refused,
		},
		{
			stoplog.ReasonUnclassified, "The operation is not named by the profile",
			"The destination's connector profile does not name this operation, and unnamed_operations is DENY.",
			"Add the operation to the connector profile (`stoplog learn` prints the lines), or set unnamed_operations: ADMIT to treat it as the profile's default class.", Refused,
		},
		{
			stoplog.ReasonAddressDenied, "The address is not allowed",
			"The destination's name resolves to a private, loopback, link-local or metadata address that its allowed_networks does not list. The check is on the address really dialled.",
			"If the service is meant to be there, add its network to allowed_networks of the destination. Otherwise check its DNS.", Refused,
		},
		{
			stoplog.ReasonPolicyDenied, "A policy denies it",
			"A configured policy with a deny rule selects this effect. The receipt names the policy.",
			"Do not repeat it. Whoever owns the policy can change its selector.", Refused,
		},
	}},
	{"Kill switch", []Entry{
		{
			stoplog.ReasonOutreachFreeze, "Messages are held: outreach freeze (L1)",
			"The kill switch is at L1 or above for one of this effect's scopes, so outbound messages are held. The message is kept byte for byte and was not sent.",
			"Do not send it again. People see it with `stoplog holds list`; after the level is lowered they release it with `stoplog holds release`.", Kept,
		},
		{
			stoplog.ReasonWriteFreeze, "Writes are parked: write freeze (L2)",
			"The kill switch is at L2 or above for one of this effect's scopes, so writes are parked and messages held. The request is kept byte for byte and was not sent.",
			"Do not send it again. After the level is lowered people release it with `stoplog holds release`, or withdraw it.", Kept,
		},
		{
			stoplog.ReasonFullStop, "Everything is stopped: full stop (L3)",
			"The kill switch is at L3 for one of this effect's scopes. Reads and model calls are refused, messages and writes are kept.",
			"Stop the run. `stoplog level get` shows who raised the level and why; it is lowered after `stoplog receipts verify` passes.", Kept,
		},
		{
			stoplog.ReasonLevelUnknown, "The level cannot be established",
			"The sidecar has not learned the level within its staleness bound. Until it does, messages and writes are treated as at L2.",
			"Wait; the sidecar recovers by itself. If it lasts, look at /readyz on the admin port and at the store behind it.", Kept,
		},
	}},
	{"Destination: breaker, limits, seats", []Entry{
		{
			stoplog.ReasonBreakerOpen, "The destination is failing: its breaker is open",
			"The destination failed often enough that calls to it are stopped for a cooldown. After it, a few probes test the destination, and successes close the breaker.",
			"Wait for Retry-After. `stoplog breaker list` shows the state; `stoplog breaker force DESTINATION half-open` starts probing now.", Later,
		},
		{
			stoplog.ReasonProbeSlotUsed, "The destination is being probed",
			"The breaker is half-open and its probes for this moment are taken by other calls.",
			"Wait for Retry-After.", Later,
		},
		{
			stoplog.ReasonRateLimited, "The destination's request rate is used",
			"The destination's configured request rate is used up for the moment, by all agents together.",
			"Wait for Retry-After. To allow more, raise limit.requests of the destination.", Later,
		},
		{
			stoplog.ReasonTokensLimited, "The destination's token rate is used",
			"The destination's configured rate of model tokens is used up for the moment.",
			"Wait for Retry-After, ask for fewer tokens, or raise limit.model_tokens of the destination.", Later,
		},
		{
			stoplog.ReasonShareUsed, "The tenant's fair share is used",
			"The destination is busy, and this tenant already has its fair part of it.",
			"Wait for Retry-After. Other tenants' calls are not delayed by this one.", Later,
		},
		{
			stoplog.ReasonSeatsTaken, "Too many calls at the destination at once",
			"All seats of the destination's concurrency ceiling are taken.",
			"Wait for Retry-After. To allow more, raise limit.max_concurrency of the destination.", Later,
		},
		{
			stoplog.ReasonTenantSeatsTaken, "Too many calls of this tenant at once",
			"The tenant holds its part of the destination's concurrency ceiling.",
			"Wait for Retry-After. To allow more, raise limit.tenant_share_bps of the destination.", Later,
		},
		{
			stoplog.ReasonCostExceedsBurst, "One call costs more than the limit can ever hold",
			"The call needs more units at once than the bucket's capacity, so waiting cannot help.",
			"Ask for less (for example a lower max_tokens), or raise the bucket's capacity.", Refused,
		},
		{
			stoplog.ReasonRetryBudgetUsed, "Retries are used up",
			"The destination's retry bucket is empty. First attempts still pass; a further attempt would only add load.",
			"Do not retry in the agent. Wait for Retry-After.", Later,
		},
		{
			stoplog.ReasonStoreUnavailable, "The admission store is away",
			"The store that owns levels, limits and budgets cannot be reached. Without its word nothing scarce is taken, so nothing was sent.",
			"Wait; the sidecar reconnects by itself. A message or write that was kept is released by people afterwards; a read or model call may be tried again.", Kept,
		},
		{
			stoplog.ReasonStoreStateMissing, "The admission store has lost state",
			"The store answers, but its record for this destination or scope is missing or older than what was seen. It is being seeded anew with the strictest view.",
			"Wait; it repairs itself. A kept message or write is released by people afterwards. If it lasts, check that the store does not evict keys.", Kept,
		},
	}},
	{"Intent: attempts and time", []Entry{
		{
			stoplog.ReasonAttemptsUsed, "All attempts of the intent are used",
			"The intent's attempts were made, by this agent or by others that share the intent.",
			"Do not retry. The result of the last attempt is what there is; decide anew as a new intent.", Refused,
		},
		{
			stoplog.ReasonDeadlineExceeded, "The time for the intent is over",
			"The intent's deadline passed, or too little of it was left for a useful attempt.",
			"Do not retry under this intent. To allow more time, raise deadline.total of the destination.", Refused,
		},
	}},
	{"Budgets", []Entry{
		{
			stoplog.ReasonBudgetExhausted, "The budget is used up",
			"The worst case of this call does not fit in what the budget has left in its window. Calls under way keep their reservations.",
			"Wait for the window to end, ask for less (a lower max_tokens), or raise the budget. `stoplog budget show` has the figures.", Refused,
		},
		{
			stoplog.ReasonPriceUnknown, "The model has no price",
			"The model is in no price table and the table allows no assumption. An unknown price is never taken as zero.",
			"Add the model to a price table of the configuration.", Refused,
		},
	}},
	{"Operations", []Entry{
		{
			stoplog.ReasonKnownOperation, "The operation is known: its recorded answer",
			"The same operation ran before. Its recorded answer is returned; nothing was sent again.",
			"Nothing. For a new effect use a new idempotency key.", Answered,
		},
		{
			stoplog.ReasonInProgress, "The same operation is under way",
			"An identical operation, or one with the same idempotency key, has not ended yet.",
			"Wait for Retry-After and ask again with the same key. Do not use a new key.", Later,
		},
		{
			stoplog.ReasonIdempotencyMismatch, "The idempotency key belongs to another request",
			"The key was used before with different content. Under one key only one effect can exist.",
			"Use a new key for a new effect, or send exactly the earlier content.", Refused,
		},
		{
			stoplog.ReasonOutcomeUnknown, "It is not known whether the effect happened",
			"The request was sent, or partly sent, and no definite answer came back. Sending it again might do it twice.",
			"Do not send it again under a new key. Look at the destination whether it happened; `stoplog receipts show OPERATION` has the attempts.", Unclear,
		},
		{
			stoplog.ReasonHoldTooLarge, "The effect is too large to keep",
			"The effect would have been held or parked, but its body exceeds hold.max_bytes. It was refused whole, never shortened.",
			"Send less in one request, or raise hold.max_bytes of the destination.", Refused,
		},
		{
			stoplog.ReasonHoldNeedsCredential, "The effect cannot be kept without its credential",
			"The effect would have been held or parked, but it carries the agent's own credential, and keeping that is not allowed for this destination.",
			"Let Stoplog set the credential (`credential` of the destination), or allow hold.keep_agent_credential.", Refused,
		},
		{
			stoplog.ReasonWithdrawn, "The held effect was withdrawn",
			"The effect was held or parked, and a person withdrew it or it became too old. It was never sent.",
			"Nothing. If it is still wanted, send it as a new effect.", Refused,
		},
		{
			stoplog.ReasonHeldAgain, "The effect is already kept",
			"The same effect is held or parked and waits for people. The repeat was joined to it; there is one copy.",
			"Do not send it again. Its state is at the status_url of the answer.", Kept,
		},
	}},
	{"The sidecar and the destination's answer", []Entry{
		{
			stoplog.ReasonEvidenceUnavailable, "The effect cannot be recorded",
			"The receipt log or the ledger takes no records (full disk, write error). No durable record means no effect.",
			"Free space or replace the disk behind the data directory, then restart if /readyz still says so.", Later,
		},
		{
			stoplog.ReasonConfigNotReady, "The sidecar has no configuration yet",
			"The process has not accepted a configuration since it started, so it cannot judge anything.",
			"Wait; if it lasts, run `stoplog check FILE` on the configuration.", Later,
		},
		{
			stoplog.ReasonDraining, "The sidecar is shutting down",
			"The sidecar ends the calls under way and takes no new ones.",
			"Send the request to the sidecar again after it restarted.", Later,
		},
		{
			stoplog.ReasonOverloaded, "The sidecar is overloaded",
			"The process reached one of its own guards (connections, memory, waiting calls).",
			"Wait for Retry-After and send less at once.", Later,
		},
		{
			stoplog.ReasonUpstreamUnreachable, "The destination cannot be reached",
			"No connection to the destination came about; nothing was sent.",
			"Check the destination's url, DNS and TLS settings, and the network of this machine.", Later,
		},
		{
			stoplog.ReasonUpstreamTimeout, "The destination did not answer in time",
			"The request was sent, and the destination's answer did not begin, or stopped, within the configured time.",
			"For a write or message treat the result as unknown: look it up before sending again. A read or a model call may be repeated.", Unclear,
		},
		{
			stoplog.ReasonUpstreamBroken, "The destination's answer broke off",
			"The connection to the destination broke after the request was sent, or its answer was not valid HTTP.",
			"For a write or message treat the result as unknown: look it up before sending again. A read or a model call may be repeated.", Unclear,
		},
		{
			stoplog.ReasonClientGone, "The agent left before the answer",
			"The agent closed its connection while the call was under way. What had been sent stays sent and is settled.",
			"Ask again with the same idempotency key to get the recorded result.", Unclear,
		},
		{
			stoplog.ReasonOperatorOnly, "Only for operators",
			"The call changes Stoplog or shows what only operators may see, and it came without operator access. Agents cannot free themselves.",
			"Use the stoplog command on the sidecar's machine, or send the operator token from the data directory.", Refused,
		},
		{
			stoplog.ReasonNotFound, "No such thing",
			"There is nothing under this name, or it belongs to someone else.",
			"Check the name.", Refused,
		},
		{
			stoplog.ReasonInternal, "Stoplog failed",
			"Something went wrong inside Stoplog. When in doubt nothing is let through.",
			"Look at the sidecar's log for the receipt's time, and report it.", Refused,
		},
	}},
}
