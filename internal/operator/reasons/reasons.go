// Package reasons explains every stoplog.Reason to people: what happened, whether anything was sent, what to do.
//
// The table is the one source of docs/reasons.md, of the pages at /problems/<reason> and of `stoplog explain`. A test holds
// it against the constants in the root package, so that no reason can be added without words for it.
package reasons

import (
	"fmt"
	"strings"

	"github.com/stoplog/stoplog"
)

//go:generate go test . -run TestDocument -update

// Disposition says what became of an effect that met a reason, and so what its sender may do.
type Disposition string

const (
	Passed   Disposition = "passed"   // not a refusal
	Refused  Disposition = "refused"  // nothing was sent; the same request gets the same answer until something is changed
	Later    Disposition = "later"    // nothing was sent; trying again after Retry-After can help
	Kept     Disposition = "kept"     // nothing was sent yet; Stoplog keeps the exact bytes until people decide. Do not send again
	Answered Disposition = "answered" // known already: the recorded result is the answer, nothing was sent again
	Unclear  Disposition = "unclear"  // bytes may have reached the destination; do not send again under a new key
)

var meanings = []struct {
	Disposition Disposition
	Meaning     string
}{
	{Passed, "Not a refusal."},
	{Refused, "Nothing was sent. The same request gets the same answer until something is changed."},
	{Later, "Nothing was sent. Trying again after `Retry-After` can help."},
	{Kept, "Nothing was sent yet. Messages and writes are kept byte for byte until people decide; do not send them again. Reads and model calls are refused."},
	{Answered, "The operation is known. Its recorded result is the answer; nothing was sent again."},
	{Unclear, "Bytes may have reached the destination. Do not send again under a new key; look it up first."},
}

// Meaning is the disposition in one or two sentences.
func (d Disposition) Meaning() string {
	for _, m := range meanings {
		if m.Disposition == d {
			return m.Meaning
		}
	}
	return ""
}

// Entry is one reason in words.
type Entry struct {
	Reason      stoplog.Reason `json:"reason"`
	Title       string         `json:"title"`
	What        string         `json:"what"` // what happened
	Do          string         `json:"do"`   // what to do about it
	Disposition Disposition    `json:"disposition"`
}

// Group is a part of the table with a heading.
type Group struct {
	Title   string
	Entries []Entry
}

// All is the table in the order of the document.
func All() []Group { return table }

// Lookup finds a reason's entry. For an unknown reason it says so in words and reports false.
func Lookup(r stoplog.Reason) (Entry, bool) {
	for _, g := range table {
		for _, e := range g.Entries {
			if e.Reason == r {
				return e, true
			}
		}
	}
	return Entry{
		Reason: r, Title: "Unknown reason", Disposition: Refused,
		What: "This version of Stoplog does not know the reason.", Do: "Look it up with the version that wrote it.",
	}, false
}

// Text is one entry as a short page in Markdown.
func (e Entry) Text() string {
	return fmt.Sprintf("# %s\n\n`%s` · %s\n\n**What happened.** %s\n\n**What to do.** %s\n\n%s\n",
		e.Title, e.Reason, e.Disposition, e.What, e.Do, e.Disposition.Meaning())
}

// Document is the whole table in Markdown: docs/reasons.md.
func Document() string {
	var b strings.Builder
	b.WriteString("# Reasons\n\n" +
		"Every decision of Stoplog carries one of these words. It is the same word in the answer to the agent (last part of the\n" +
		"problem's `type`), in the receipt, in the metric label and in the heading here. `stoplog explain RECEIPT` applies it to one\n" +
		"case, and the sidecar serves each entry at `/problems/<reason>` on its admin port.\n\n" +
		"This file is written from `internal/operator/reasons/table.go`; change it there.\n\n" +
		"| Disposition | Meaning |\n|---|---|\n")
	for _, m := range meanings {
		fmt.Fprintf(&b, "| %s | %s |\n", m.Disposition, m.Meaning)
	}
	for _, g := range table {
		fmt.Fprintf(&b, "\n## %s\n", g.Title)
		for _, e := range g.Entries {
			fmt.Fprintf(&b, "\n### %s\n\n%s (%s).\n\n%s\n\n%s\n", e.Reason, e.Title, e.Disposition, e.What, e.Do)
		}
	}
	return b.String()
}
