// Package receipts holds Stoplog's evidence: what was decided, what was sent and what became of it.
//
//	Receipt ──AppendJSON──▶ leaf ──segment──▶ log/<life>/NNNNNNNN.seg ──▶ checkpoint (signed, C2SP)
//	   ▲                                          │
//	   └── ledger: one receipt per step           ├── Reader: tail, show, follow
//	vault: exact bytes, salts                     ├── Verify: the whole directory, with a pinned key
//	                                              └── Prove / VerifyProof: one receipt alone
//
// This package has the receipt, its encoding, and everything that reads. Writing is in segment, kept bytes in vault,
// operations in ledger.
package receipts
