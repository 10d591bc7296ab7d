// Package ledger owns operations: logical effects with a stable id that are sent at most once.
//
//	         Keep ┌──────────┐ Begin                Finish
//	─────────────▶│ proposed │──────▶ dispatching ─────────▶ confirmed (applied or rejected)
//	              └──────────┘   ▲         │  │
//	   Withdraw, expiry │        │ Attempt─┘  ├─ not sent ──▶ void
//	                    ▼                     └─ lost, crash ▶ unknown ─▶ confirmed
//	                  void
//
// Every step is a receipt, durable before the step counts. Local keeps them in the log of this process and is an index over
// it; receipts.LegalTransition is the table of edges.
package ledger
