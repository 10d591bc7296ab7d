// Package connector reads vendors' traffic: an HTTP request becomes an effect, an answer becomes an outcome and usage.
//
// Decoders are code: JSON, forms, multipart, JSON-RPC, event streams; each reads a message once and strictly, and refuses
// what two readers could read differently. Profiles are data: a Spec names a vendor's operations and where their fields
// stand. Compile checks a Spec once; Classify then reads a request in one pass, and an Observer reads the answer while it
// passes by.
//
//	Request ── path index ──▶ candidates ── decode, conditions ──▶ operation ── sources ──▶ Reading (Effect)
//	answer bytes ──▶ Observer (document, events, JSON-RPC, usage) ──▶ End ── answer rules ──▶ Result (Outcome, Usage)
//
// What a profile does not name is never a read and never a model call. What could not be read is refused, or said to be
// unread; it is never "nothing found".
package connector
