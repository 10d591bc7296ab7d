// Package stoplog holds the words of Stoplog as Go types: what an agent's outbound request would do (Effect), who stands
// behind it (Actor), what was decided (Decision) and what became of it (Outcome).
//
// The package knows no transport, no store and no configuration; it imports the standard library only. Contracts live
// beside their callers: admission (stages and the store), receipts (the log and the ledger), proxy (the request's way).
package stoplog
